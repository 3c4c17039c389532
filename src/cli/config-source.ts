import type { ConfigSource } from '../daemon/daemon-context.ts';
import { stampOf } from '../platform/config/config-files.ts';
import type { Environment } from '../platform/config/interpolate.ts';
import {
  configSize,
  LARGE_CONFIG,
  type LoadedConfig,
  type LoadInput,
  loadConfig,
  readAhead,
} from '../platform/config/load.ts';
import { type Files, fileReads, type KnownFiles } from '../platform/lib/regular-files.ts';
import { createConverter } from '../sync/worker/converter.ts';

/** Files beside the configuration whose changes count too. */
interface OtherSources {
  /** Where a `.env` is, or may come to be. */
  readonly envFile?: string | undefined;
  /** Files that secrets were read from at the start. */
  readonly secrets: readonly string[];
}

/**
 * Files are checked and not watched, because watching one blocks the process while its file system does not answer. At most 50 files
 * are checked per second.
 */
const CHECK_EVERY_MS = 2_000;
const MS_PER_FILE = 20;

/** @param variables reads the variables for `${NAME}` anew; throws where `.env` cannot be used */
export function configSource(
  place: Omit<LoadInput, 'env' | 'files'>,
  variables: (files: Files) => Environment,
  { envFile, secrets }: OtherSources,
): ConfigSource {
  let sources = secrets;
  let fileCount = 0;

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

  return {
    load,
    get checkEvery() {
      return Math.max(CHECK_EVERY_MS, fileCount * MS_PER_FILE);
    },
    async stamp() {
      const files = [...sources, ...(envFile === undefined ? [] : [envFile])];
      const stamp = await fileReads.run((each) => stampOf(place, files, each));
      fileCount = stamp.split('\n').length;
      return `${stamp}\n${fileReads.answeredLate()}`;
    },
  };
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
