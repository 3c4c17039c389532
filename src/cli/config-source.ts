import { dirname } from 'node:path';
import type { ConfigSource } from '../daemon/reload.ts';
import type { Environment } from '../platform/config/interpolate.ts';
import {
  configSize,
  LARGE_CONFIG,
  type LoadedConfig,
  type LoadInput,
  loadConfig,
  readAhead,
} from '../platform/config/load.ts';
import { folderOf, stampOf } from '../platform/config/stamp.ts';
import type { Cancel } from '../platform/lib/clock.ts';
import { fileReads, type KnownFiles } from '../platform/lib/file-reads.ts';
import type { Files } from '../platform/lib/regular-files.ts';
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
  place: Omit<LoadInput, 'env' | 'files'>,
  variables: (files: Files) => Environment,
  { envFile, secrets }: OtherSources,
): ConfigSource {
  let sources = secrets;

  /** Reads all files off the event loop, then loads them. */
  async function load(): Promise<LoadedConfig> {
    const { input, files } = await fileReads.run((each) => {
      const read = { ...place, env: variables(each) };
      readAhead(read, each);
      return { input: read, files: each };
    });
    const bytes = configSize(input, files);
    const config = bytes > LARGE_CONFIG ? await loadInThread(input, files, bytes) : loadConfig({ ...input, files });
    sources = config.secretSources;
    return config;
  }

  /** Returns the folders that answer, because watching another one would block. */
  const folders = () =>
    fileReads.run((files) => {
      const named = [folderOf(place, files), envFile && dirname(envFile)].filter((each) => each !== undefined);
      return [...new Set(named)].filter((folder) => isThere(folder, files));
    });

  return {
    load,
    stamp: () =>
      fileReads.run((files) => stampOf(place, [...sources, ...(envFile === undefined ? [] : [envFile])], files)),
    watch(onChange) {
      let isOver = false;
      let ends: readonly Cancel[] = [];
      // A folder that is not watched is still checked once a minute.
      void folders().then((paths) => {
        if (!isOver) ends = paths.map((folder) => watchFolder(folder, onChange));
      });
      return () => {
        isOver = true;
        for (const end of ends) end();
      };
    },
  };
}

function isThere(folder: string, files: Files): boolean {
  try {
    return files.stat(folder) !== undefined;
  } catch {
    return false;
  }
}

/** The configuration changes seldom: the thread ends with it. */
async function loadInThread(
  { path, text, env, envFile }: LoadInput,
  { known }: KnownFiles,
  bytes: number,
): Promise<LoadedConfig> {
  const converter = createConverter();
  try {
    return await converter.config({ path, text, env, envFile, known }, bytes);
  } finally {
    await converter.close();
  }
}
