import type { Behaviours, Dimension } from './dimensions.ts';
import type { Feature } from './story.ts';

/** The features that stop with a value, and the codes that the daemon reports. */
export interface Exception {
  readonly dimension: Dimension;
  readonly value: string;
  readonly stops: readonly Feature[];
  /** Codes of causes and held changes: at least one of them is reported. */
  readonly codes: readonly string[];
  readonly why: string;
}

const NO_ROUTE =
  'The server has no route that records pull requests. worksync keeps them in its own database, and still adds links.';

export const EXCEPTIONS: readonly Exception[] = [
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
    why: 'The server refuses to remove links. Each removal needs a person.',
  },
  {
    dimension: 'link GET, DELETE',
    value: 'DELETE by address',
    stops: ['removals'],
    codes: ['not_found'],
    why: 'The server removes a link by its address, not by its id. Each removal needs a person.',
  },
  {
    dimension: 'version header',
    value: 'other name',
    stops: ['everything', 'links', 'removals', 'records', 'triage'],
    codes: ['refused'],
    why: 'The server refuses every request until `workspace.api.versionHeader` names its header.',
  },
];

/** Features that stop only if the dimension `without` has an exception too. Only the route for records promises idempotent links. */
export const EXCEPTIONS_OF_PAIRS: readonly (Exception & { readonly without: Dimension })[] = [
  {
    dimension: 'link GET, DELETE',
    value: '405',
    without: 'pull-request routes',
    stops: ['links', 'removals'],
    codes: ['workspace_routes_off'],
    why: 'Links can neither be read nor are they known to be idempotent. No link is added unless `workspace.api.links: idempotent` is set.',
  },
];

export function exceptionsOf(behaviours: Behaviours): readonly Exception[] {
  const own = EXCEPTIONS.filter(({ dimension, value }) => behaviours[dimension] === value);
  const ofPairs = EXCEPTIONS_OF_PAIRS.filter(
    ({ dimension, value, without }) =>
      behaviours[dimension] === value && own.some((other) => other.dimension === without),
  );
  return [...own, ...ofPairs];
}
