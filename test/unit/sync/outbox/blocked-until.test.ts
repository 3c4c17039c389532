import { describe, expect, it, test } from 'vitest';
import { entity as entityName, MAX_TIME_IN_FLIGHT } from '../../../../src/model/change.ts';
import { findChange } from '../../../../src/store/outbox-rows.ts';
import { nextRevision } from '../../../../src/store/revision.ts';
import { saveTaskMarks } from '../../../../src/store/task-creations.ts';
import { noteLinksRead } from '../../../../src/store/workspace-reads.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { MAX_BLOCK, prepareNext } from '../../../../src/sync/outbox/claim.ts';
import type { PreparedRequest } from '../../../../src/sync/outbox/request.ts';
import { settle } from '../../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { differs } from '../../../support/changes.ts';
import { CONTEXT, failed, LINK, LOST, link, newTask, TASK } from '../../../support/in-flight.ts';
import { openTestStore } from '../../../support/intake.ts';

const NOW = 1_000_000;
const LINKS = entityName.readLinks('t1');
const FAILING = { ...CONTEXT, outage: false, atFault: false };
const take = (query: Scope, now: number) => prepareNext(query, { now, onlyReads: false });

describe('on a server that may double links', () => {
  it('the first link to a task waits for one read of the links of the task', async () => {
    const { query } = await openTestStore();
    await differs(query, link);
    const read = await take(query, NOW);
    expect(read).toMatchObject({ entity: LINKS, lane: link.kind });
    expect(await findChange(query, LINK)).toMatchObject({ state: 'pending', not_before: NOW + MAX_BLOCK });
    await settle(query, read as never, { workItems: [] }, { ...CONTEXT, now: NOW });
    await noteLinksRead(query, 't1', read as PreparedRequest);
    expect(await take(query, NOW)).toMatchObject({ entity: LINK, action: 'add-link' });
    // A second link to the task waits for nothing.
    const other = { ...link, entity: `${LINK}2` };
    await differs(query, other);
    expect(await take(query, NOW)).toMatchObject({ entity: other.entity });
  });

  it('an addition whose answer was lost waits for a read that was sent after it, when it must have arrived', async () => {
    const { query } = await openTestStore();
    await noteLinksRead(query, 't1', { revision: await nextRevision(query), sentAt: NOW });
    await differs(query, link);
    const first = await take(query, NOW);
    expect(first).toMatchObject({ entity: LINK });
    await settleFailure(query, first as never, LOST, { ...FAILING, now: NOW + 1 });
    // Sent before the addition.
    await noteLinksRead(query, 't1', { revision: (first?.revision as number) - 1, sentAt: NOW });
    const later = NOW + MAX_TIME_IN_FLIGHT - 1;
    expect(await take(query, later)).toBeUndefined();
    const read = await take(query, later + 1);
    expect(read).toMatchObject({ entity: LINKS });
    await noteLinksRead(query, 't1', read as PreparedRequest);
    expect(await take(query, later + 1)).toMatchObject({ entity: LINK, open: true });
  });
});

describe('until a list has shown a mark of ours', () => {
  const second = { ...newTask, entity: `${TASK}2`, item_key: 'jira:cloud:issue:2' };
  const twoTasks = async () => {
    const { query } = await openTestStore();
    await differs(query, newTask);
    await differs(query, second);
    return { query, first: await take(query, NOW) };
  };

  it('one creation is in flight, and the next goes once it was answered', async () => {
    const { query, first } = await twoTasks();
    expect(first).toMatchObject({ entity: TASK });
    expect(await take(query, NOW)).toBeUndefined();
    await settle(query, first as never, { taskId: 't1' }, { ...CONTEXT, now: NOW });
    expect(await take(query, NOW)).toMatchObject({ entity: second.entity });
  });

  it('the next waits as long as nobody knows whether the first was carried out', async () => {
    const { query, first } = await twoTasks();
    await settleFailure(query, first as never, LOST, { ...FAILING, now: NOW });
    expect(await take(query, NOW + 50_000)).toBeUndefined();
    expect(await findChange(query, second.entity)).toMatchObject({ state: 'pending' });
  });

  it('the next goes where the first was refused', async () => {
    const { query, first } = await twoTasks();
    expect(await take(query, NOW)).toBeUndefined();
    await settleFailure(query, first as never, failed('refused', 422, 'validation_failed'), { ...FAILING, now: NOW });
    expect(await take(query, NOW)).toMatchObject({ entity: second.entity });
  });
});

test('creations go side by side once a list has shown a mark of ours', async () => {
  const { query } = await openTestStore();
  await saveTaskMarks(query, { source: false, description: true });
  for (const entity of [TASK, `${TASK}2`]) await differs(query, { ...newTask, entity, item_key: entity.slice(5) });
  expect(await take(query, NOW)).toMatchObject({ entity: TASK });
  expect(await take(query, NOW)).toMatchObject({ entity: `${TASK}2` });
});
