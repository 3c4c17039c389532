/**
 * The path of a server behind a proxy: `/worksync` of `https://host/worksync/`. The proxy may forward the path or strip it. Links
 * of pages are written without it, and get it in requests to the public host.
 */
export interface BasePath {
  /** Removes the path from the address of a request. */
  strip(url: string): string;
  /** Whether links of an answer need the path. @param host as the request names it */
  concerns(host: string, url: string): boolean;
  /** Adds the path to a path of ours, for the browser. */
  link(path: string): string;
  /** Adds the path to all links of a page, or of an event that contains a part of one as JSON. */
  page(html: string): string;
}

/** Returns undefined if the public address has no path. */
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
    // Foreign texts cannot look like this, because their quotes are escaped.
    page: (html) => html.replace(/ (href|src|action|data-live)=(\\?")(?=\/(?!\/))/g, ` $1=$2${base}`),
  };
}
