import type { Item } from '../../../src/model/item.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import type { Cause, ReconcileConnection, Rules } from '../../../src/sync/reconcile/context.ts';
import { type EvaluationResult, evaluate } from '../../../src/sync/reconcile/evaluate.ts';
import { RULES, SOURCES, TRACKER } from './batches.ts';

interface Look {
  readonly now?: number;
  readonly cause?: Partial<Cause>;
  readonly rules?: Rules;
  readonly source?: Partial<ReconcileConnection>;
}

export function look(
  { commit }: Store,
  item: Item,
  { now = 5_000, cause, rules = RULES, source }: Look = {},
): Promise<EvaluationResult> {
  const code = SOURCES.get('code');
  if (!code) throw new Error('there is no such source');
  const own = { ...(item.kind === 'pull_request' ? code : TRACKER), ...source };
  return commit((query) =>
    evaluate({
      query,
      item,
      connection: own,
      cause: { since: now, waiting: [], ...cause },
      now,
      usedShare: 0,
      rules,
      sources: SOURCES,
    }),
  );
}
