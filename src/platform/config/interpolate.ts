import { isUtf8 } from 'node:buffer';
import { diskFiles, type FileFault, type FileStats, type Files } from '../lib/regular-files.ts';

/** Environment variables, as returned by `environment()`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Bytes of the largest secret. */
export const MAX_SECRET_BYTES = 65_536;

/** Reads variables, and records what the rest of the program must know about them. */
export interface Variables {
  /** Returns the value of `NAME`, or the content of the file named by `NAME_FILE`; undefined if both are absent. */
  get(name: string): Found | undefined;
  /** Values that must never be shown. */
  readonly secrets: ReadonlySet<string>;
  /** Files that were read. */
  readonly files: ReadonlySet<string>;
  readonly warnings: ReadonlySet<string>;
  /** Replaces a variable that is not set and has no default; absent: that is a problem. */
  readonly unset?: string;
  /** The `.env` that is read too, if there is one. */
  readonly envFile?: EnvSource | undefined;
}

/** A `.env` file, which may not exist yet. */
export interface EnvSource {
  readonly path: string;
  /** The variables that come from it. */
  readonly used: readonly string[];
}

/**
 * Returns no variables, for a text that is only tried: the environment stays unread, so that no message about the text can
 * contain its values. The replacement of a value is an address, because some keys accept nothing else.
 */
export function noVariables(): Variables {
  const none: ReadonlySet<string> = new Set();
  return { get: () => undefined, secrets: none, files: none, warnings: none, unset: 'https://not-set.invalid/' };
}

/** A variable that is set: its value, or why it cannot be used. An empty variable counts as not set. */
type Found = { readonly value: string } | { readonly problem: string };

export function createVariables(env: Environment, envFile?: EnvSource, source: Files = diskFiles): Variables {
  const known = new Map<string, Found | undefined>();
  const secrets = new Set<string>();
  const files = new Set<string>();
  const warnings = new Set<string>();

  function look(name: string): Found | undefined {
    const value = ownValue(env, name);
    const path = ownValue(env, `${name}_FILE`);
    if (value !== undefined && path !== undefined) return { problem: `both ${name} and ${name}_FILE are set` };
    if (path !== undefined) {
      files.add(path);
      return readSecret(name, path, source, warnings);
    }
    if (value === undefined) return undefined;
    if (/[\r\n]/.test(value))
      return { problem: `${name} contains a line break: put the value into a file and set ${name}_FILE to its path` };
    return { value };
  }

  return {
    secrets,
    files,
    warnings,
    envFile,
    get(name) {
      if (!known.has(name)) known.set(name, look(name));
      const found = known.get(name);
      if (found && 'value' in found && found.value.length >= SHORTEST_SECRET) secrets.add(found.value);
      return found;
    },
  };
}

function ownValue(env: Environment, name: string): string | undefined {
  return Object.hasOwn(env, name) && env[name] !== '' ? env[name] : undefined;
}

function readSecret(name: string, path: string, source: Files, warnings: Set<string>): Found {
  try {
    const { bytes, stats } = source.read(path, MAX_SECRET_BYTES);
    for (const warning of readableByAll(path, stats)) warnings.add(`${name}_FILE: ${warning}`);
    const value = secretIn(bytes);
    return 'problem' in value ? { problem: `${name}_FILE: ${path} ${value.problem}` } : value;
  } catch (error) {
    return { problem: `${name}_FILE: ${(error as FileFault).about(path)}` };
  }
}

/** Returns a warning if other users may read the file. */
export function readableByAll(path: string, { mode }: FileStats): readonly string[] {
  return (mode & 0o004) === 0 ? [] : [`everybody may read ${path} (mode ${octal(mode)}); set its mode to 0600`];
}

export function octal(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, '0');
}

/** Removes what editors and shells add: no secret begins or ends with a blank or a line break. Other unusual bytes are refused. */
function secretIn(bytes: Buffer): Found {
  const isUtf16 = /^(?:fffe|feff)/.test(bytes.toString('hex', 0, 2)) || bytes.includes(0);
  if (isUtf16) return { problem: 'is UTF-16 or no text: save it as UTF-8' };
  if (!isUtf8(bytes)) return { problem: 'is not UTF-8: save it as UTF-8' };
  const value = bytes
    .toString()
    .replace(/^\ufeff/, '')
    .trim();
  if (value === '') return { problem: 'is empty' };
  const isQuoted = value.length > 1 && /^["'`]/.test(value) && value.endsWith(value.charAt(0));
  return isQuoted ? { problem: 'stands in quotes: a file holds the secret itself, without quotes' } : { value };
}

const TOKEN = /\$\$|\$\{([^}]*)(\}?)/g;
const REFERENCE = /^([A-Za-z_][A-Za-z0-9_]*)(?::([-?])((?:(?!\$\{).)*))?$/s;

/**
 * Puts variables into one text: `${NAME}`, `${NAME:-default}`, `${NAME:?message}`; `$$` stands for a dollar sign.
 * It works on the text of one YAML value after parsing, so a variable's value never becomes structure. A text with problems must not
 * be used.
 */
export function interpolate(source: string, variables: Variables) {
  const problems: string[] = [];
  const text = source.replace(TOKEN, (token, inner: string, end: string) => {
    if (token === '$$') return '$';
    const found = expand(end === '' ? '' : inner, variables);
    if ('problem' in found) {
      problems.push(found.problem);
      return '';
    }
    return found.value;
  });
  return { text, problems };
}

function expand(inner: string, variables: Variables): Found {
  const match = REFERENCE.exec(inner);
  const name = match?.[1];
  if (!match || name === undefined)
    return { problem: `expected \${NAME}, \${NAME:-default} or \${NAME:?message}; write $$ for a dollar sign` };
  const found = variables.get(name);
  if (found) return found;
  if (match[2] === '-') return { value: match[3] ?? '' };
  if (variables.unset !== undefined) return { value: variables.unset };
  const place = variables.envFile === undefined ? '' : ` in the environment or in ${variables.envFile.path}`;
  const remedy = match[3] || `set it${place}, or ${name}_FILE to the path of a file`;
  return { problem: `variable ${name} is not set: ${remedy}` };
}

const SECRET_KEY = /^key$|token|secret|password|api_?key|private_?key|credential/i;
/** A shorter value is no secret, and hiding it would blank out ordinary words of the log. */
const SHORTEST_SECRET = 6;

/** Returns texts, and those in lists, whose key is called like a secret, wherever they came from. */
export function literalSecrets(data: unknown, isSecret = false): readonly string[] {
  if (typeof data === 'string') return isSecret && data.length >= SHORTEST_SECRET ? [data] : [];
  if (typeof data !== 'object' || data === null) return [];
  if (Array.isArray(data)) return data.flatMap((value) => literalSecrets(value, isSecret));
  return Object.entries(data).flatMap(([key, value]) => literalSecrets(value, SECRET_KEY.test(key)));
}
