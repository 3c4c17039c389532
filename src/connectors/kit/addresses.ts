import { withoutEnd } from '../../lib/text.ts';

/** A host name alone, in lower case. */
export const HOST = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** A web address in plain text, without the punctuation behind it: `split` puts each at an odd place. */
export const ADDRESS_IN_TEXT = /(https?:\/\/[^\s<>()[\]"'`]+[^\s<>()[\]"'`.,;:!?])/;

/** Whether requests may append paths to it and send a credential there: https, or http on loopback. */
export function isApiUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.has(url.hostname));
}

/** Some text of a vendor as one segment of a path: half of a surrogate pair stands in no address. */
export function segmentOf(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/** Without a slash at its end, so that a path can follow. */
export function asBase(apiUrl: string): string {
  return withoutEnd(apiUrl, '/');
}

/** The URL of a text, as a path below the one of our own bases that it begins with; undefined when it leads elsewhere. */
export function ownUrl(text: string, bases: readonly string[]): URL | undefined {
  const home = bases.find((base) => text.startsWith(`${base}/`));
  if (home === undefined || !URL.canParse(text)) return undefined;
  // Parsed again below a fixed origin: that resolves dot segments, so that callers compare the real path.
  const below = `https://api.invalid${text.slice(home.length)}`;
  return URL.canParse(below) ? new URL(below) : undefined;
}
