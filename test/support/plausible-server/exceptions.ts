import type { Behaviours, Dimension } from './dimensions.ts';
import type { Feature } from './story.ts';

/** What stops with a value, and what the daemon says about it. */
export interface Exception {
  readonly dimension: Dimension;
  readonly value: string;
  readonly stops: readonly Feature[];
  /** Of causes and held changes: at least one of them is reported. */
  readonly codes: readonly string[];
  readonly why: string;
}

const NO_ROUTE =
  'the workspace has no route for records; the mirror stays with worksync, and links are made all the same';

const EXCEPTIONS: readonly Exception[] = [
  ...(['opens (literal)', '403', '404', '400 without provider'] as const).map(
    (value): Exception => ({
      dimension: 'pull-request routes',
      value,
      stops: ['records'],
      codes: ['mirror here'],
      why: NO_ROUTE,
    }),
  ),
  {
    dimension: 'link GET, DELETE',
    value: '405',
    stops: ['removals'],
    codes: ['refused', 'workspace_routes_off'],
    why: 'the server refuses to remove links; each removal waits for a person',
  },
  {
    dimension: 'link GET, DELETE',
    value: 'DELETE by address',
    stops: ['removals'],
    codes: ['not_found'],
    why: 'the server removes a link by another address than its id; each removal waits for a person',
  },
  {
    dimension: 'version header',
    value: 'other name',
    stops: ['everything', 'links', 'removals', 'records', 'triage'],
    codes: ['refused'],
    why: 'the server refuses each request until `workspace.api.versionHeader` names its header',
  },
];

/** Without the route for records nothing promises idempotent links, and links that cannot be read cannot be looked up either. */
const OF_PAIRS: readonly (Exception & { readonly without: Dimension })[] = [
  {
    dimension: 'link GET, DELETE',
    value: '405',
    without: 'pull-request routes',
    stops: ['links', 'removals'],
    codes: ['workspace_routes_off'],
    why: 'links are neither readable nor known to be idempotent; `workspace.api.links: idempotent` says that they are',
  },
];

/** What may stop at this server. */
export function exceptionsOf(behaviours: Behaviours): readonly Exception[] {
  const own = EXCEPTIONS.filter(({ dimension, value }) => behaviours[dimension] === value);
  const ofPairs = OF_PAIRS.filter(
    ({ dimension, value, without }) =>
      behaviours[dimension] === value && own.some((other) => other.dimension === without),
  );
  return [...own, ...ofPairs];
}
