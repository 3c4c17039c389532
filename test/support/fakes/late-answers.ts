import type { Sql } from '../../../src/store/workspace-scope.ts';

/**
 * Delays the results of some queries, as a server with several connections does: the first result may arrive last.
 *
 * @param isLate whether the query of this number, from 1, is delayed
 */
export function withLateAnswers(
  query: Sql,
  isLate: (number: number) => boolean,
): { readonly query: Sql; release(): void } {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let asked = 0;
  const late = query.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (isLate(++asked)) await released;
      return result;
    },
  });
  return { query: late, release };
}
