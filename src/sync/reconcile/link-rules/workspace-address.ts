/** Where the workspace is, in the parts that addresses of its tasks are compared by. */
export interface Address {
  readonly host: string;
  /** Segments that stand before everything of the workspace. */
  readonly path: readonly string[];
}

export function addressOf(text: string): Address | undefined {
  const url = URL.parse(text);
  return url === null ? undefined : { host: url.host, path: segmentsOf(url.pathname) };
}

/** The segments of an address that follow the workspace's own, and its parameters; undefined where it lies elsewhere. */
export function pathOf(text: string, { host, path }: Address): readonly string[] | undefined {
  const url = URL.parse(text);
  if (url?.host !== host) return undefined;
  const segments = segmentsOf(url.pathname);
  if (!path.every((segment, at) => segments[at] === segment)) return undefined;
  const task = url.searchParams.get('task') ?? url.searchParams.get('taskId');
  return [...segments.slice(path.length), ...(task === null ? [] : ['task', task])];
}

const MOST_SEGMENTS = 30;

function segmentsOf(path: string): string[] {
  return path
    .split('/', MOST_SEGMENTS)
    .filter((segment) => segment !== '')
    .map((segment) => {
      try {
        return decodeURIComponent(segment);
      } catch {
        return segment;
      }
    });
}
