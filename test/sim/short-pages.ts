import type { HttpRequest } from '../../src/platform/http/http-client.ts';

/** How servers are told how long a page may be: the workspace, GitHub and GitLab, Bitbucket. */
const NAMES = ['limit', 'per_page', 'pagelen'];

/** The server gives pages no longer than this, whatever it is asked for: so that few rows fill several pages. */
export function withShortPages(request: HttpRequest, longest: number): HttpRequest {
  if (request.method !== 'GET' || longest === Number.POSITIVE_INFINITY) return request;
  const url = new URL(request.url);
  const asked = NAMES.filter((name) => Number(url.searchParams.get(name)) > longest);
  if (asked.length === 0) return request;
  for (const name of asked) url.searchParams.set(name, String(longest));
  return { ...request, url: url.href };
}
