import { withoutEnd } from '../../lib/text.ts';

/** A host name alone, in lower case. */
export const HOST = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** Whether paths can be put behind it, and a credential be sent there: https, or http on loopback. */
export function isApiUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.has(url.hostname));
}

/** Without a slash at its end, so that a path can follow. */
export function asBase(apiUrl: string): string {
  return withoutEnd(apiUrl, '/');
}

/** The URL below one of our own bases that a text means, or undefined when it leads elsewhere. */
export function ownUrl(text: string, bases: readonly string[]): URL | undefined {
  const home = bases.find((base) => text.startsWith(`${base}/`));
  if (home === undefined || !URL.canParse(text)) return undefined;
  // Parsed again below a fixed origin: dot segments are resolved, and what is compared is what was meant.
  const below = `https://api.invalid${text.slice(home.length)}`;
  return URL.canParse(below) ? new URL(below) : undefined;
}
