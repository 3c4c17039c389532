import { hash } from 'node:crypto';

/** A strong validator over the bytes of an answer. */
export function etagOf(body: string): string {
  return `"${hash('sha1', body, 'base64url')}"`;
}

/** `If-None-Match` names the validator, by weak comparison as for every GET (RFC 9110, 13.1.2). */
export function isNotModified(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === '*') return true;
  return ifNoneMatch.split(',').some((given) => given.trim().replace(/^W\//, '') === etag);
}

/** `If-Match` fails: none of its validators is this one, by strong comparison (RFC 9110, 13.1.1). */
export function isChanged(ifMatch: string | undefined, etag: string): boolean {
  if (ifMatch === undefined || ifMatch.trim() === '*') return false;
  return !ifMatch.split(',').some((given) => given.trim() === etag);
}
