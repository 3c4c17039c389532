import { isIP } from 'node:net';
import { join } from 'node:path';
import { SyncError } from '../../model/errors.ts';
import { isPostgres, readAddress } from '../database/postgres-address.ts';
import { memoryFolder } from '../lib/folders.ts';
import { diskFiles, type Files } from '../lib/regular-files.ts';
import { withoutEnd } from '../lib/text.ts';
import { createVariables, type Environment } from './interpolate.ts';

/** A frozen copy of the process's environment: the only one that the program reads. */
export function environment(): Environment {
  return Object.freeze({ ...process.env });
}

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;

export interface DaemonOptions {
  /** A workspace file or a folder of them; absent: the project's own. */
  readonly config?: string;
  /** Folder of the databases. */
  readonly data: string;
  /** Folder of backups that are named without a folder; absent: the working folder. */
  readonly backup?: string;
  /** Address of the PostgreSQL that keeps all rows in place of the data folder. */
  readonly store?: string;
  /** The address under which other replicas reach this one; absent: its host name and port. */
  readonly replicaAddress?: string;
  /** 0: any free port. */
  readonly port: number;
  readonly host: string;
  /** Absent: pages and admin actions are served on `port`. */
  readonly adminPort?: number;
  /** Hosts, beside those of loopback, under which people open the pages: `name`, for any port, or `name:port`. */
  readonly allowedHosts?: readonly string[];
  /** Metrics answer without a credential. */
  readonly openMetrics?: boolean;
  /** Browsers may log in over plain HTTP from other machines. */
  readonly insecurePages?: boolean;
  /** Addresses and CIDR ranges of the reverse proxies whose forwarding headers are trusted; absent: none. */
  readonly trustedProxies?: readonly string[];
  /** The address under which vendors reach this daemon from outside, without a slash at the end. */
  readonly publicUrl?: string;
  readonly logLevel: (typeof LOG_LEVELS)[number];
  /** The OpenTelemetry collector that receives the traces; absent, as the next one: no tracing. */
  readonly otlpEndpoint?: string;
  /** The full address for traces, used without changes. */
  readonly otlpTracesEndpoint?: string;
  /** Requests to the workspace name their trace. */
  readonly otlpTraceparent?: boolean;
}

/** One option of the whole daemon. Flags, help, environment, checks and the reference page are made from these. */
interface DaemonOption {
  readonly key: keyof DaemonOptions;
  /** The flag in the form that commander expects. */
  readonly flag: string;
  readonly env: string;
  readonly type:
    | 'path'
    | 'data folder'
    | 'store'
    | 'host'
    | 'hosts'
    | 'ranges'
    | 'switch'
    | 'address'
    | 'port'
    | 'log level';
  /** The default as it would be typed; absent: not set. */
  readonly default?: string;
  readonly description: string;
}

export const DAEMON_OPTIONS: readonly DaemonOption[] = [
  {
    key: 'config',
    flag: '--config <path>',
    env: 'WORKSYNC_CONFIG',
    type: 'path',
    description: 'Workspace file, or a folder of them (config/workspaces, else config/default.yaml)',
  },
  {
    key: 'data',
    flag: '--data <folder>',
    env: 'WORKSYNC_DATA',
    type: 'data folder',
    default: 'data',
    description: 'Folder of the databases; :memory: keeps them in memory until the daemon ends',
  },
  {
    key: 'backup',
    flag: '--backup <folder>',
    env: 'WORKSYNC_BACKUP',
    type: 'path',
    description:
      'Folder in which "worksync backup monday.db" writes its file and "worksync restore monday.db" finds it (the working folder)',
  },
  {
    key: 'store',
    flag: '--store <address>',
    env: 'WORKSYNC_STORE',
    type: 'store',
    description:
      'PostgreSQL in place of the databases in the data folder, for one or several replicas: postgres://user@host/database. Give an address with a password by WORKSYNC_STORE or WORKSYNC_STORE_FILE only: others on the machine can read flags',
  },
  {
    key: 'replicaAddress',
    flag: '--replica-address <address>',
    env: 'WORKSYNC_REPLICA_ADDRESS',
    type: 'address',
    description:
      'Address under which the other replicas over one PostgreSQL reach this one (http://<host name>:<port>)',
  },
  {
    key: 'port',
    flag: '--port <number>',
    env: 'WORKSYNC_PORT',
    type: 'port',
    default: '8080',
    description: 'Port for webhooks and pages; 0 takes any free one',
  },
  {
    key: 'host',
    flag: '--host <address>',
    env: 'WORKSYNC_HOST',
    type: 'host',
    default: '127.0.0.1',
    description: 'Address to listen on; 0.0.0.0 inside a container',
  },
  {
    key: 'adminPort',
    flag: '--admin-port <number>',
    env: 'WORKSYNC_ADMIN_PORT',
    type: 'port',
    description: 'Separate port for pages, metrics and admin actions',
  },
  {
    key: 'allowedHosts',
    flag: '--allowed-hosts <names>',
    env: 'WORKSYNC_ALLOWED_HOSTS',
    type: 'hosts',
    description:
      'Host names, besides localhost, under which people open the pages, separated by commas; a name with a port allows that port only',
  },
  {
    key: 'openMetrics',
    flag: '--open-metrics',
    env: 'WORKSYNC_OPEN_METRICS',
    type: 'switch',
    description: 'Let everybody read /metrics without a credential',
  },
  {
    key: 'insecurePages',
    flag: '--insecure-pages',
    env: 'WORKSYNC_INSECURE_PAGES',
    type: 'switch',
    description: 'Let browsers log in over plain HTTP from other machines; only for networks that nobody else can read',
  },
  {
    key: 'trustedProxies',
    flag: '--trusted-proxies <ranges>',
    env: 'WORKSYNC_TRUSTED_PROXIES',
    type: 'ranges',
    description:
      'Addresses of your reverse proxies, such as 127.0.0.1 or 10.0.0.0/8, separated by commas; worksync trusts X-Forwarded-For and X-Forwarded-Proto from these only',
  },
  {
    key: 'publicUrl',
    flag: '--public-url <address>',
    env: 'WORKSYNC_PUBLIC_URL',
    type: 'address',
    description:
      'Public address under which vendors reach the daemon, used to register webhooks and to find those that are switched off',
  },
  {
    key: 'logLevel',
    flag: '--log-level <level>',
    env: 'WORKSYNC_LOG_LEVEL',
    type: 'log level',
    default: 'info',
    description: `Lowest level that is logged: ${LOG_LEVELS.join(', ')}`,
  },
  {
    key: 'otlpEndpoint',
    flag: '--otlp-endpoint <address>',
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    type: 'address',
    description: 'Export traces to this OpenTelemetry collector, as OTLP over HTTP with JSON; /v1/traces is added',
  },
  {
    key: 'otlpTracesEndpoint',
    flag: '--otlp-traces-endpoint <address>',
    env: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    type: 'address',
    description: 'The same with the whole path; it comes before --otlp-endpoint',
  },
  {
    key: 'otlpTraceparent',
    flag: '--otlp-traceparent',
    env: 'WORKSYNC_OTLP_TRACEPARENT',
    type: 'switch',
    description: 'While traces are exported, send a traceparent header with each request to the workspace',
  },
];

/** Flags as commander gives them: text by option key, `true` for a switch; absent where the flag was not given. */
export type Flags = Readonly<Partial<Record<keyof DaemonOptions, string | true>>>;

/** The variable that holds the configuration itself in place of files. */
export const CONFIG_TEXT = 'WORKSYNC_CONFIG_YAML';

/** Returns the text of the configuration. `--config` takes precedence over it, and it over the variable of a path, which an image sets. */
export function configText(flags: Pick<Flags, 'config'>, env: Environment): string | undefined {
  return flags.config === undefined ? env[CONFIG_TEXT] || undefined : undefined;
}

interface Source {
  readonly env: Environment;
  readonly files: Files;
}

type Read = { readonly key: string; readonly value: unknown } | { readonly problem: string; readonly isFlag: boolean };

/**
 * The daemon's options: a flag comes before the environment, the environment before the default.
 * Throws with one line per problem, each naming its flag (`usage`) or variable (`config_invalid`).
 */
export function daemonOptions(flags: Flags, env: Environment, files: Files = diskFiles): DaemonOptions {
  const read = DAEMON_OPTIONS.map((option) => readOption(option, flags, { env, files }));
  const problems = read.filter((result) => 'problem' in result);
  if (problems.length > 0) {
    const code = problems.some(({ isFlag }) => isFlag) ? 'usage' : 'config_invalid';
    throw new SyncError(code, problems.map(({ problem }) => problem).join('\n'));
  }
  return Object.fromEntries(
    read.flatMap((result) => ('key' in result ? [[result.key, result.value]] : [])),
  ) as unknown as DaemonOptions;
}

function readOption(option: DaemonOption, flags: Flags, { env, files }: Source): Read {
  const flag = flags[option.key];
  const variable =
    option.type === 'store' ? secretIn(option.env, { env, files }) : { value: env[option.env] || undefined };
  if ('problem' in variable) return { problem: variable.problem, isFlag: false };
  const text = flag?.toString() ?? variable.value ?? option.default;
  const value = text === undefined ? undefined : PARSERS[option.type](text);
  if (text === undefined || value !== undefined) return { key: option.key, value };
  const origin = flag === undefined ? option.env : option.flag.split(' ')[0];
  // An address may hold a password.
  const got = option.type === 'store' ? '' : `, got "${text}"`;
  return { problem: `${origin}: expected ${EXPECTED[option.type]}${got}`, isFlag: flag !== undefined };
}

/** Reads a secret from a variable, or from the file that the variable with `_FILE` names. */
function secretIn(name: string, { env, files }: Source): { readonly value?: string } | { readonly problem: string } {
  return createVariables(env, undefined, files).get(name) ?? {};
}

/** Returns the address of the pages for browsers: the public one, unless the pages have a port of their own. */
export function addressOfPages(
  { publicUrl, adminPort }: Pick<DaemonOptions, 'publicUrl' | 'adminPort'>,
  listens: string,
): string {
  return adminPort === undefined ? (publicUrl ?? listens) : listens;
}

/** The end of the names of files that contain the tasks of an embedded service. */
export const SERVICE_DATABASE = '.service.db';

/** Returns the file of the embedded service of a workspace. */
export function serviceDatabase(dataFolder: string, workspace: string): string {
  return join(dataFolder, `${workspace}${SERVICE_DATABASE}`);
}

/** Returns the password in the address of a store, which must never be shown. */
export function secretsOfStore({ store }: Pick<DaemonOptions, 'store'>): readonly string[] {
  const url = store === undefined ? null : URL.parse(store);
  const given = [url?.password ?? '', url?.searchParams.get('password') ?? ''].filter((text) => text !== '');
  return given.flatMap((text) => [text, decodeURIComponent(text)]);
}

/** Reads a text as the value of an option, for commands that take the same value in another place. */
export function optionValue<Key extends keyof DaemonOptions>(
  key: Key,
  text: string,
): { readonly value: NonNullable<DaemonOptions[Key]> } | { readonly expected: string } {
  const { type } = DAEMON_OPTIONS.find((option) => option.key === key) as DaemonOption;
  const value = PARSERS[type](text) as NonNullable<DaemonOptions[Key]> | undefined;
  return value === undefined ? { expected: `expected ${EXPECTED[type]}` } : { value };
}

const EXPECTED = {
  path: 'a path',
  'data folder': 'a path or :memory:, with or without a name of a-z, 0-9 and -',
  store: 'postgres://user:password@host:port/database?schema=name, where schema and connections may be left out',
  host: 'an address without a port',
  hosts: 'host names, each with or without a port, separated by commas',
  ranges: 'IP addresses or CIDR ranges separated by commas',
  switch: 'true or false',
  address: 'an address that begins with https:// or http://, without query or credentials',
  port: 'a port from 0 to 65535',
  'log level': `one of ${LOG_LEVELS.join(', ')}`,
};

/** Returns undefined if the text is not of the type. */
const PARSERS: Readonly<Record<DaemonOption['type'], (text: string) => unknown>> = {
  path: (text) => text || undefined,
  'data folder': (text) => memoryFolder(text) ?? (text.startsWith(':memory:') ? undefined : text || undefined),
  store: storeAddress,
  host: (text) => (/^[\w.:%-]+$/.test(text) && !/^[^:]+:\d+$/.test(text) ? text : undefined),
  hosts: (text) => (text.split(',').every((host) => HOST.test(host)) ? text.split(',') : undefined),
  ranges: (text) => (text.split(',').every(isRange) ? text.split(',') : undefined),
  switch: (text) => ({ true: true, false: false })[text],
  address: publicAddress,
  port: (text) => (/^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : undefined),
  'log level': (text) => LOG_LEVELS.find((level) => level === text),
};

const HOST = /^(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d{1,5})?$/;

/** `10.0.0.0/8`, or one address. */
function isRange(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

function storeAddress(text: string): string | undefined {
  if (!isPostgres(text)) return undefined;
  try {
    readAddress(text);
    return text;
  } catch {
    return undefined;
  }
}

function publicAddress(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) return undefined;
  if (url.search + url.hash + url.username + url.password !== '') return undefined;
  return withoutEnd(url.href, '/');
}

/** The proxies through which requests leave, as the environment names them. */
export interface Proxies {
  /** For `http:` targets; empty: none. May hold a password. */
  readonly httpProxy: string;
  /** For `https:` targets. */
  readonly httpsProxy: string;
  /** Hosts that are reached directly, as `NO_PROXY` lists them. */
  readonly noProxy: string;
}

/**
 * Reads `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in lower case first, as curl and undici do. Returns undefined if none is set.
 *
 * @param env the real environment of the process: a file in the working folder must not select the proxy, which sees all requests
 */
export function proxiesOf(env: Environment): Proxies | undefined {
  const httpProxy = addressIn(env, 'HTTP_PROXY');
  const httpsProxy = addressIn(env, 'HTTPS_PROXY') || httpProxy;
  if (httpsProxy === '') return undefined;
  return { httpProxy, httpsProxy, noProxy: variable(env, 'NO_PROXY') };
}

function variable(env: Environment, name: string): string {
  return (env[name.toLowerCase()] || env[name] || '').trim();
}

/** A scheme may be left out, as in curl. */
function addressIn(env: Environment, name: string): string {
  const given = variable(env, name);
  if (given === '') return '';
  const url = URL.parse(given.includes('://') ? given : `http://${given}`);
  if (url && /^https?:$/.test(url.protocol) && url.hostname !== '') return url.href;
  // The value may hold a password.
  throw new SyncError('config_invalid', `${name}: expected the address of a proxy`, {
    hint: `Set ${name} to an address such as http://proxy.example.com:3128; SOCKS is not supported.`,
  });
}

/** Returns the proxies of this process. @param onSecret receives each value that must never be shown */
export function ownProxies(onSecret: (secret: string) => void): Proxies | undefined {
  const proxies = proxiesOf(environment());
  if (proxies) for (const secret of secretsOfProxies(proxies)) onSecret(secret);
  return proxies;
}

/** Returns each form in which a password may be repeated: as written, decoded, and as HTTP Basic. */
export function secretsOfProxies({ httpProxy, httpsProxy }: Proxies): readonly string[] {
  const secrets = [httpProxy, httpsProxy].flatMap((address) => {
    const { username = '', password = '' } = URL.parse(address) ?? {};
    if (password === '') return [];
    const plain = [username, password].map(decoded);
    return [password, plain[1] as string, Buffer.from(plain.join(':')).toString('base64')];
  });
  return [...new Set(secrets)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Describes the proxies without credentials. */
export function describeProxies({ httpProxy, httpsProxy, noProxy }: Proxies): string {
  const [plain, secure] = [httpProxy, httpsProxy].map((address) => URL.parse(address)?.origin);
  const through =
    plain === secure || plain === undefined
      ? `requests leave through ${secure}`
      : `requests leave through ${secure}, plain HTTP through ${plain}`;
  return noProxy === '' ? through : `${through}, except to ${noProxy}`;
}
