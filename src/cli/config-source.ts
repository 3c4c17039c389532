import { type LoadInput, loadConfig } from '../config/load.ts';
import { folderOf, stampOf } from '../config/stamp.ts';
import type { ConfigSource } from '../daemon/reload.ts';
import { watchFolder } from '../lib/watch-folder.ts';

/** @param secretSources files that secrets were read from at the start */
export function configSource(input: LoadInput, secretSources: readonly string[]): ConfigSource {
  let sources = secretSources;
  return {
    load() {
      const config = loadConfig(input);
      sources = config.secretSources;
      return config;
    },
    stamp: () => stampOf(input, sources),
    watch(onChange) {
      const folder = folderOf(input);
      return folder === undefined ? () => undefined : watchFolder(folder, onChange);
    },
  };
}
