import { connectors } from '../connectors/registry.ts';
import { type ConfigSource, createProcessContext } from '../daemon/daemon-context.ts';
import { commandEnvironment, draftFiles, stampOf } from '../platform/config/config-files.ts';
import {
  configText,
  type DaemonOptions,
  daemonOptions,
  environment,
  type Flags,
  secretsOfStore,
} from '../platform/config/daemon-options.ts';
import type { Environment } from '../platform/config/interpolate.ts';
import {
  configSize,
  LARGE_CONFIG,
  type LoadedConfig,
  type LoadInput,
  loadConfig,
  readAhead,
} from '../platform/config/load.ts';
import { type ConfiguredToken, configuredTokens, secretKeyOf } from '../platform/config/tokens.ts';
import { secretsOfExport, traceSettings } from '../platform/config/trace-export.ts';
import { systemRandom } from '../platform/lib/clock.ts';
import { type Files, fileReads, type KnownFiles } from '../platform/lib/regular-files.ts';
import { createLogger } from '../platform/observe/pino-logger.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import { type DaemonEndpoint, findDaemon } from '../store/installation/daemon-file.ts';
import { createConverter } from '../sync/worker/converter.ts';
import { apiOverrides } from '../workspace-api/contract.ts';

/** The start of a command that works on the configured workspaces. */
export type Session = Awaited<ReturnType<typeof openSession>>;

export interface SessionInput {
  readonly version: string;
  readonly scrubber: Scrubber;
  readonly flags: Flags;
  /** The level if neither a flag nor the environment sets one. */
  readonly logLevel: (config: LoadedConfig, demoSecret: string) => DaemonOptions['logLevel'];
  /** Whether this process becomes the daemon. Other commands use the configuration of the running daemon. */
  readonly isDaemon?: boolean;
}

/** Reads options and configuration, and registers the secret values with the scrubber of log and error texts. */
export async function openSession(input: SessionInput) {
  const read = await fileReads.run((files) => readSettings(input, files));
  const { flags, env, place, envFile, given, config, demoSecret, configPlace, secretKey, tokens } = read;
  // Reads the variables with each load, because the file may have changed.
  const variables = (files: Files): Environment => ({
    WORKSYNC_DEMO_SECRET: demoSecret,
    ...commandEnvironment(flags, environment(), files).variables,
  });
  const named = flags.logLevel ?? env['WORKSYNC_LOG_LEVEL'];
  const options = named ? given : { ...given, logLevel: input.logLevel(config, demoSecret) };
  const { traces, warnings } = traceSettings(options, env);
  for (const secret of [
    ...[demoSecret, ...config.secrets, ...secretsOfStore(given)],
    ...(secretKey ? [secretKey.text] : []),
    ...tokens.map(({ secret }) => secret),
    ...(traces ? secretsOfExport(traces) : []),
  ])
    input.scrubber.add(secret);
  const logger = createLogger({ level: options.logLevel, scrubber: input.scrubber });
  for (const warning of [
    ...config.warnings,
    ...unknownWorkspaces(tokens, config),
    ...warnings,
    ...(envFile?.warnings ?? []),
  ])
    logger.warn({ warning }, 'configuration warning');
  return {
    version: input.version,
    options,
    flags,
    config,
    /** Absent without a `.env`. */
    envFile,
    /** Lists the drafts of `worksync init` beside the configuration, which worksync does not read. */
    drafts: (): Promise<readonly string[]> =>
      fileReads.run((files) => (configPlace.text === undefined ? draftFiles({ path: given.config }, files) : [])),
    /** The source from which the configuration is read again. */
    source: configSource(configPlace, variables, { envFile: place, secrets: config.secretSources }),
    /** Tokens for pages, metrics and admin actions, as the environment sets them. */
    tokens,
    scrubber: input.scrubber,
    /** The demo's webhook secret: the one of the running daemon, or a new one. */
    demoSecret,
    /** The key of the environment. */
    secretKey: secretKey?.key,
    /** The destination of traces; absent: no tracing. */
    traces,
    parts: createProcessContext(logger, input.version, input.scrubber),
  };
}

/** Reads all files that a session needs. `FileReads` runs it repeatedly, so it has no effects. */
function readSettings(input: SessionInput, files: Files) {
  const flags = input.isDaemon ? input.flags : withDaemonConfig(input.flags, files);
  const { settings: env, variables, place, file: envFile } = commandEnvironment(flags, environment(), files);
  const given = daemonOptions(flags, env, files);
  const demoSecret = demoSecretOf(given.data, files);
  const source = place === undefined ? undefined : { path: place, used: envFile?.used ?? [] };
  const configPlace = { path: given.config, text: configText(flags, env), envFile: source, connectors, apiOverrides };
  const config = readConfig({ ...configPlace, env: { WORKSYNC_DEMO_SECRET: demoSecret, ...variables } }, files);
  const [secretKey, tokens] = [secretKeyOf(env, files), configuredTokens(env, files)];
  return { flags, env, place, envFile, given, demoSecret, configPlace, config, secretKey, tokens };
}

function readConfig(input: LoadInput, files: Files): LoadedConfig {
  readAhead(input, files);
  return loadConfig({ ...input, files });
}

/** Adds the configuration of the daemon that uses the data folder, or that was killed there, unless another one is named. */
function withDaemonConfig(flags: Flags, files: Files): Flags {
  const { settings } = commandEnvironment(flags, environment(), files);
  const { config, data } = daemonOptions(flags, settings, files);
  if (config !== undefined || configText(flags, settings) !== undefined) return flags;
  const running = endpointOf(data, files)?.config;
  return running !== undefined && files.stat(running) ? { ...flags, config: running, data } : flags;
}

/** Returns the secret of the demo that runs on this data folder, if this user may read it; otherwise a new one. */
function demoSecretOf(dataFolder: string, files: Files): string {
  return endpointOf(dataFolder, files)?.demoSecret ?? systemRandom().bytes(24).toString('base64url');
}

/** Returns undefined if no daemon has announced itself, or if its file belongs to another user. */
function endpointOf(dataFolder: string, files: Files): DaemonEndpoint | undefined {
  try {
    return findDaemon(dataFolder, files);
  } catch {
    return undefined;
  }
}

/** An unknown name is no error, because the workspace may be added later. */
function unknownWorkspaces(tokens: readonly ConfiguredToken[], { workspaces }: LoadedConfig): readonly string[] {
  const known = workspaces.map(({ name }) => name);
  const named = new Set(tokens.flatMap((token) => token.workspaces ?? []));
  return [...named]
    .filter((name) => !known.includes(name))
    .map((name) => `WORKSYNC_TOKENS: a token is limited to "${name}", and there is no such workspace`);
}

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
