/**
 * A server below a path of a proxy: `/worksync` of `https://host/worksync/`. The proxy may pass the path on or strip it. Links of pages
 * are written without it, and get it where people ask under the public host.
 */
export interface BasePath {
  /** The address of a request without the path. */
  strip(url: string): string;
  /** Whether links of an answer need the path. @param host as the request names it */
  concerns(host: string, url: string): boolean;
  /** A path of ours as the browser needs it. */
  link(path: string): string;
  /** The same of all links of a page, or of an event that brings a part of one as JSON. */
  page(html: string): string;
}

/** Undefined where the public address has no path. */
export function basePathOf(publicUrl: string | undefined): BasePath | undefined {
  if (publicUrl === undefined) return undefined;
  const { pathname, host: publicHost } = new URL(publicUrl);
  const base = pathname.replace(/(?<!\/)\/+$/, '');
  if (base === '') return undefined;
  const isBelow = (url: string) => url === base || url.startsWith(`${base}/`) || url.startsWith(`${base}?`);
  return {
    strip: (url) => (isBelow(url) ? url.slice(base.length).replace(/^(?!\/)/, '/') : url),
    concerns: (host, url) => host.toLowerCase() === publicHost || isBelow(url),
    link: (path) => (/^\/(?!\/)/.test(path) && !isBelow(path) ? base + path : path),
    // Texts of others cannot look like this: the quotes in them are escaped.
    page: (html) => html.replace(/ (href|src|action|data-live)=(\\?")(?=\/(?!\/))/g, ` $1=$2${base}`),
  };
}
