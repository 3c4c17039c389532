import type { TaskStatuses } from '../../../src/model/task-status.ts';
import { type Eligibility, nextDue } from '../../../src/store/changes/next-change.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { prepareChange } from '../../../src/sync/outbox/claim.ts';
import type { SlotTimes } from '../../../src/sync/outbox/request.ts';

export async function nextChange(query: Scope, eligible: Eligibility) {
  const next = await nextDue(query, eligible);
  return next !== undefined && next.at <= eligible.now ? next : undefined;
}

/** Selects and prepares changes, as the outbox does one by one, until one of them is to be sent. @param selected is tried first */
export async function prepareNext(
  query: Scope,
  { taskStatuses, ...eligible }: Eligibility & { readonly taskStatuses?: TaskStatuses },
  selected?: string,
  slotTimes: SlotTimes = { askedAt: eligible.now, slotAt: eligible.now },
) {
  const times = { ...slotTimes, now: eligible.now };
  let entity = selected;
  for (;;) {
    entity ??= (await nextChange(query, eligible))?.entity;
    if (entity === undefined) return undefined;
    const prepared = await prepareChange(query, entity, times, taskStatuses);
    if (prepared) return prepared;
    entity = undefined;
  }
}
