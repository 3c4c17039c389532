import type { Sql } from '../../src/store/workspace-scope.ts';

/**
 * The same queries, of which some are told late, as a server with several connections does: what was read first may arrive last.
 *
 * @param isLate of each query by its number, from 1
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
