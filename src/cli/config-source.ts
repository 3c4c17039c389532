import type { ConfigSource } from '../daemon/reload.ts';
import { configSize, LARGE_CONFIG, type LoadedConfig, type LoadInput, loadConfig } from '../platform/config/load.ts';
import { folderOf, stampOf } from '../platform/config/stamp.ts';
import { watchFolder } from '../platform/lib/watch-folder.ts';
import { createConverter } from '../sync/worker/converter.ts';

/** @param secretSources files that secrets were read from at the start */
export function configSource(input: LoadInput, secretSources: readonly string[]): ConfigSource {
  let sources = secretSources;
  return {
    async load() {
      const bytes = configSize(input);
      const config = bytes > LARGE_CONFIG ? await loadInThread(input, bytes) : loadConfig(input);
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

/** The configuration changes seldom: the thread ends with it. */
async function loadInThread({ path, text, env }: LoadInput, bytes: number): Promise<LoadedConfig> {
  const converter = createConverter();
  try {
    return await converter.config({ path, text, env }, bytes);
  } finally {
    await converter.close();
  }
}
