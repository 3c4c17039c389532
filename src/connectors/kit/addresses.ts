import { withoutEnd } from '../../platform/lib/text.ts';

/** A web address in plain text, without the punctuation behind it: `split` puts each at an odd place. */
export const ADDRESS_IN_TEXT = /(https?:\/\/[^\s<>()[\]"'`]+[^\s<>()[\]"'`.,;:!?])/;

/** Some text of a vendor as one segment of a path: half of a surrogate pair stands in no address. */
export function segmentOf(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/** Without a slash at its end, so that a path can follow. */
export function asBase(apiUrl: string): string {
  return withoutEnd(apiUrl, '/');
}
