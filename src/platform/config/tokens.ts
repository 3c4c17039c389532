import type { Access, Role } from '../../model/caller.ts';
import { SyncError } from '../../model/errors.ts';
import { diskFiles, type Files } from '../lib/regular-files.ts';
import { parseSecretKey } from '../lib/secret-box.ts';
import { createVariables, type Environment } from './interpolate.ts';

/** A token from the environment, for pages, metrics and admin actions. */
export interface ConfiguredToken extends Access {
  readonly secret: string;
}

/** The characters that RFC 6750 allows in a bearer token. */
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;
const SHORTEST = 16;

const ROLE = /^(read|admin)(?::([a-z0-9-]+(?:,[a-z0-9-]+)*))?$/;

/**
 * Reads the tokens of `WORKSYNC_ADMIN_TOKEN`, `WORKSYNC_READ_TOKEN` and `WORKSYNC_TOKENS`, each also with `_FILE`. The last is a
 * list: an entry on each line, or with `;` between them, as `read:acme,beta <token>`: the role, the workspaces (left out: all),
 * the token. Lines that begin with `#` are skipped. Throws `config_invalid`, never with a value.
 */
export function configuredTokens(env: Environment, files: Files = diskFiles): readonly ConfiguredToken[] {
  const variables = createVariables(env, undefined, files);
  const tokens: ConfiguredToken[] = [];
  const problems: string[] = [];
  const take = (place: string, secret: string, access: Access) => {
    const problem = problemOf(secret) ?? (tokens.some((other) => other.secret === secret) ? REPEATED : undefined);
    if (problem === undefined) tokens.push({ secret, ...access });
    else problems.push(`${place}: ${problem}`);
  };
  const read = (name: string, use: (text: string) => void) => {
    const found = variables.get(name);
    if (found === undefined) return;
    if ('problem' in found) problems.push(found.problem);
    else use(found.value);
  };
  const single = (name: string, role: Role) =>
    read(name, (text) => take(name, text.trim(), { role, workspaces: null }));
  single('WORKSYNC_ADMIN_TOKEN', 'admin');
  single('WORKSYNC_READ_TOKEN', 'read');
  read('WORKSYNC_TOKENS', (text) => {
    for (const [index, entry] of text.split(/[;\n]/).entries()) {
      const place = `WORKSYNC_TOKENS: entry ${index + 1}`;
      const [rights = '', secret = '', ...rest] = entry.trim().split(/\s+/);
      if (rights === '' || rights.startsWith('#')) continue;
      const access = accessOf(rights);
      if (access === undefined || rest.length > 0) problems.push(`${place}: expected ${ENTRY}`);
      else take(place, secret, access);
    }
  });
  if (problems.length > 0) throw new SyncError('config_invalid', problems.join('\n'), { hint: HINT });
  return tokens;
}

const REPEATED = 'the same token is set twice';
const ENTRY = '"read <token>", "admin <token>", or for some workspaces "read:acme,beta <token>"';
const HINT = 'Make a token with: openssl rand -hex 32';

function problemOf(secret: string): string | undefined {
  if (secret.length < SHORTEST) return `a token has at least ${SHORTEST} characters`;
  return TOKEN.test(secret) ? undefined : 'a token consists of letters, digits and - . _ ~ + / only';
}

function accessOf(text: string): Access | undefined {
  const match = ROLE.exec(text);
  return match === null ? undefined : { role: match[1] as Role, workspaces: match[2]?.split(',') ?? null };
}

const SECRET_KEY = 'WORKSYNC_SECRET_KEY';

/**
 * Returns the key of `WORKSYNC_SECRET_KEY`, or of the file that `WORKSYNC_SECRET_KEY_FILE` names, with which a workspace service
 * encrypts what it stores, and its text, which must never be shown. Undefined if neither is set: the service then keeps a key of its
 * own beside its database. Throws `config_invalid`, never with the value.
 */
export function secretKeyOf(env: Environment, files: Files = diskFiles) {
  const found = createVariables(env, undefined, files).get(SECRET_KEY);
  if (found === undefined) return undefined;
  if ('problem' in found) throw new SyncError('config_invalid', found.problem);
  const key = parseSecretKey(found.value);
  if (key !== undefined) return { key, text: found.value.trim() };
  throw new SyncError('config_invalid', `${SECRET_KEY}: expected 32 bytes in base64 or hex`, {
    hint: 'Make one with: openssl rand -base64 32',
  });
}

const VARIABLE = 'WORKSYNC_OAUTH_TOKEN';
const FLAG = '--oauth-token-file';

/**
 * The OAuth token of a person, for what the workspace does only for people. Never a flag: command lines are seen by every
 * user of the machine. Throws `secret_missing`.
 *
 * @param file with the token, as the flag names it; absent: the environment names it
 */
export function oauthToken(env: Environment, file: string | undefined): string {
  const found = createVariables(file === undefined ? env : { [`${VARIABLE}_FILE`]: file }).get(VARIABLE);
  if (found && 'value' in found) return found.value;
  const whose = 'the OAuth token of a workspace owner or admin (of any member for commands on agents).';
  if (file !== undefined) {
    const problem = found?.problem.replace(`${VARIABLE}_FILE`, FLAG) ?? `${FLAG} names no file`;
    throw new SyncError('secret_missing', problem, { hint: `Name a file that holds ${whose}` });
  }
  const problem = found?.problem ?? `${VARIABLE} is not set: the workspace does this only for people`;
  throw new SyncError('secret_missing', problem, { hint: `Set ${VARIABLE}, or ${VARIABLE}_FILE to a path: ${whose}` });
}
