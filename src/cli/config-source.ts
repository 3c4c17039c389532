import { dirname } from 'node:path';
import type { ConfigSource } from '../daemon/reload.ts';
import type { Environment } from '../platform/config/interpolate.ts';
import { configSize, LARGE_CONFIG, type LoadedConfig, type LoadInput, loadConfig } from '../platform/config/load.ts';
import { folderOf, stampOf } from '../platform/config/stamp.ts';
import { watchFolder } from '../platform/lib/watch-folder.ts';
import { createConverter } from '../sync/worker/converter.ts';

/** Files beside the configuration whose changes count too. */
interface OtherSources {
  /** Where a `.env` is, or may come to be. */
  readonly envFile?: string | undefined;
  /** Files that secrets were read from at the start. */
  readonly secrets: readonly string[];
}

/** @param variables reads the variables for `${NAME}` anew; throws where `.env` cannot be used */
export function configSource(
  files: Omit<LoadInput, 'env'>,
  variables: () => Environment,
  { envFile, secrets }: OtherSources,
): ConfigSource {
  let sources = secrets;
  return {
    async load() {
      const input = { ...files, env: variables() };
      const bytes = configSize(input);
      const config = bytes > LARGE_CONFIG ? await loadInThread(input, bytes) : loadConfig(input);
      sources = config.secretSources;
      return config;
    },
    stamp: () => stampOf(files, [...sources, ...(envFile === undefined ? [] : [envFile])]),
    watch(onChange) {
      const folders = new Set([folderOf(files), envFile && dirname(envFile)].filter((each) => each !== undefined));
      const ends = [...folders].map((folder) => watchFolder(folder, onChange));
      return () => {
        for (const end of ends) end();
      };
    },
  };
}

/** The configuration changes seldom: the thread ends with it. */
async function loadInThread({ path, text, env, envFile }: LoadInput, bytes: number): Promise<LoadedConfig> {
  const converter = createConverter();
  try {
    return await converter.config({ path, text, env, envFile }, bytes);
  } finally {
    await converter.close();
  }
}
