import { expect, test } from 'vitest';
import { entity } from '../../../../../src/model/change.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply.ts';
import { openTestStore } from '../../../../support/intake.ts';

const DOCUMENT = entity.document('d1');
const ASKED = 20_000;
const at = (second: number) => `2026-01-05T09:00:0${second}.000Z`;
const ATTACHED = { taskId: 't1', isMissing: false, updatedAt: at(5) };
const LOOSE = { taskId: null, isMissing: false };

test.each<[what: string, told: object, known: object, hand: 'removed' | null]>([
  ['of before it was attached comes late', { taskId: null, updatedAt: at(4) }, ATTACHED, null],
  ['of before, with a time in numbers, comes late', { taskId: null, updatedAt: Date.parse(at(4)) }, ATTACHED, null],
  ['that people took it off is true', { taskId: null, updatedAt: at(6) }, { ...LOOSE, updatedAt: at(6) }, 'removed'],
  ['that it is gone is true, whatever its time', { updatedAt: at(4), isMissing: true }, { isMissing: true }, 'removed'],
  ['that tells no time is taken as new', { taskId: null }, LOOSE, 'removed'],
  ['with a time that nobody can read is taken as new', { taskId: null, updatedAt: 'soon' }, LOOSE, 'removed'],
  ['with a time of another kind is taken as new', { taskId: null, updatedAt: {} }, LOOSE, 'removed'],
])('of a document that was attached, an event %s', async (_what, told, known, hand) => {
  const { query, commit } = await openTestStore();
  const row = {
    item_key: 'github:github.com:5001:pull:1',
    task_id: 't1',
    known: JSON.stringify(ATTACHED),
    known_at: 1,
  };
  await saveEntity(query, blankEntity(DOCUMENT, 'document', { ...row, desired: '{"documentId":"d1"}' }));
  const body = { documents: [{ documentId: 'd1', ...told }] };
  const answer = { action: 'saw-documents', entity: '', sentAt: ASKED, body } as const;
  await commit((transaction) => applyAnswer(transaction, answer, { now: ASKED + 1, usedShare: 0 }));
  const after = await findEntity(query, DOCUMENT);
  expect([JSON.parse(after?.known ?? ''), after?.hand]).toEqual([expect.objectContaining(known), hand]);
});
