import { SyncError } from '../../model/errors/sync-error.ts';
import { environment } from './daemon-options.ts';
import type { Environment } from './interpolate.ts';

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
 * @param env the real environment of the process: a file in the working folder must not choose who sees all requests
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
