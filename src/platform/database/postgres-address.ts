import type { ConnectionOptions } from 'node:tls';
import type { ConnectionConfig } from 'pg';

/** The files that an address may name, by the option of `node:tls` that takes their contents. */
export const TLS_FILES = { cert: 'sslcert', key: 'sslkey', ca: 'sslrootcert' } as const;
export type FileOption = keyof typeof TLS_FILES;

export interface Tls {
  readonly paths: ReadonlyMap<FileOption, string>;
  /** Without the contents of the files until they are read. */
  readonly options: ConnectionOptions;
}

/** The parts of an address such as `postgres://worksync:secret@db.example.com/worksync?schema=sync`. */
export interface PostgresAddress {
  /** For messages: without its password. */
  readonly place: string;
  readonly connection: ConnectionConfig;
  /** Undefined: the address names no file for TLS. */
  readonly tls: Tls | undefined;
  /** Options of each session, such as `-c work_mem=8MB`; ours are added to them. */
  readonly options: string;
  readonly schema: string;
  /** Number of connections for reads; one more writes, one renews leases, and one receives signals. */
  readonly connections: number;
}

/** Whether a place names a server, and not a file. */
export function isPostgres(place: string): boolean {
  return /^postgres(ql)?:\/\//.test(place);
}

const DEFAULT_SCHEMA = 'worksync';
const DEFAULT_CONNECTIONS = 4;
const MOST_CONNECTIONS = 50;

/** Such names need no quotes anywhere, and cannot be anything but a name. */
const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/;

/** Parses an address. Throws its fault, without the password. */
export function readAddress(text: string): PostgresAddress {
  const url = URL.parse(text);
  // The host of a Unix socket is in the query.
  if (!url || (url.hostname === '' && !url.searchParams.has('host')))
    throw new Error('the address of PostgreSQL is no valid URL: postgres://user:password@host:port/database');
  const schema = url.searchParams.get('schema') ?? DEFAULT_SCHEMA;
  if (!SCHEMA.test(schema))
    throw new Error('schema: lower-case letters, digits and underscores, and no digit in front');
  const connections = Number(url.searchParams.get('connections') ?? DEFAULT_CONNECTIONS);
  if (!Number.isInteger(connections) || connections < 1 || connections > MOST_CONNECTIONS)
    throw new Error(`connections: a whole number from 1 to ${MOST_CONNECTIONS}`);
  // Both are read with this decoding, so that an invalid one fails here and not when the connection is opened.
  decodeURIComponent(url.username + url.password);
  const options = url.searchParams.get('options') ?? '';
  // `pg` would let these parameters override ours, including the schema.
  for (const own of ['schema', 'connections', 'options']) url.searchParams.delete(own);
  const tls = extractTls(url.searchParams);
  const connection = { connectionString: url.href, ...(tls && { ssl: tls.options }) };
  return { place: placeOf(url, schema), connection, tls, options, schema, connections };
}

/**
 * Moves TLS out of the query of an address that names files, because `pg` would read these for each connection, and a file system that
 * does not answer would block the process. Other addresses are left to `pg`.
 */
function extractTls(query: URLSearchParams): Tls | undefined {
  const paths = new Map<FileOption, string>();
  for (const [option, name] of Object.entries(TLS_FILES)) {
    const path = query.get(name);
    if (path) paths.set(option as FileOption, path);
    query.delete(name);
  }
  const mode = query.get('sslmode') ?? 'verify-full';
  if (paths.size === 0 || mode === 'disable') return undefined;
  const options = query.get('uselibpqcompat') === 'true' ? libpqOptions(mode, paths.has('ca')) : pgOptions(mode);
  for (const name of ['ssl', 'sslmode', 'uselibpqcompat']) query.delete(name);
  return { paths, options };
}

const UNVERIFIED: ConnectionOptions = { rejectUnauthorized: false };

function pgOptions(mode: string): ConnectionOptions {
  return mode === 'no-verify' ? { ...UNVERIFIED } : {};
}

/** Returns the options by libpq's meaning of the mode. With an authority, `require` checks the certificate as `verify-ca` does, but no host name. */
function libpqOptions(mode: string, hasAuthority: boolean): ConnectionOptions {
  if (hasAuthority && ['require', 'verify-ca'].includes(mode)) return { checkServerIdentity: () => undefined };
  return ['prefer', 'require'].includes(mode) ? { ...UNVERIFIED } : {};
}

/** Whether the connection stays on this machine. */
export function isLocal(text: string): boolean {
  const host = URL.parse(text)?.hostname ?? '';
  return ['', 'localhost', '127.0.0.1', '[::1]'].includes(host);
}

function placeOf({ username, host, pathname }: URL, schema: string): string {
  const user = username === '' ? '' : `${username}@`;
  return `postgres://${user}${host}${pathname}, schema ${schema}`;
}
