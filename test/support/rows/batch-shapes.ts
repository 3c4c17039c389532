import { entity } from '../../../src/model/change.ts';
import type { PullRequest, WorkItem } from '../../../src/model/item.ts';
import { blankEntity } from '../../../src/store/entities.ts';
import { saveTaskMarks } from '../../../src/store/task-creations.ts';
import { saveRows } from '../../../src/store/unit-of-work/unit-of-work.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import type { Translated } from '../../../src/sync/reconcile/translate-deliveries.ts';
import { answered, START, said, saidOf, TRACKER, takeBatch } from './batches.ts';
import { pull, workItem } from './items.ts';
import { openRecords } from './records-route.ts';

/** Contents of a batch, and the deliveries processed before it. */
export interface BatchShape {
  readonly name: string;
  /** Deliveries that were processed earlier. */
  readonly before?: (count: number) => readonly (readonly Translated[])[];
  readonly seed?: (query: Scope, count: number) => Promise<void>;
  readonly batch: (count: number) => readonly Translated[];
  readonly again?: (count: number) => readonly string[];
}

/** Seconds after the start, when a list proves that tasks of the start are gone. */
const LATE = 7_200;

/** The request of a creation whose answer was lost. */
const SENT = JSON.stringify({ action: 'create-task', body: {}, sentAt: START });

function some<Each>(count: number, make: (number: number) => Each): Each[] {
  return Array.from({ length: count }, (_, index) => make(index + 1));
}

const pullKey = (number: number) => `github:github.com:5001:pull:${number}`;

function request(number: number, fields: Partial<PullRequest> = {}): PullRequest {
  const url = `https://github.com/acme/api/pull/${number}`;
  return pull({ key: pullKey(number), identifier: String(number), url, title: `BUG-${number}: a change`, ...fields });
}

const issueKey = (number: number) => `jira:cloud-1:issue:${number}`;

function issue(number: number, fields: Partial<WorkItem> = {}): WorkItem {
  const url = `https://acme.example.com/browse/ENG-${number}`;
  return workItem({ key: issueKey(number), identifier: `ENG-${number}`, url, type: 'Bug', ...fields });
}

const task = (number: number, fields: object = {}) => ({
  ...{ taskId: `t${number}`, key: `BUG-${number}`, title: `Task ${number}`, status: 'open', source: 'api' },
  ...{ createdAt: '2026-01-01T00:00:00Z', updatedAt: '2026-01-01T00:00:00Z', ...fields },
});

const record = (number: number, fields: object = {}) => ({
  ...{ provider: 'github', repoId: '5001', identifier: String(number), title: `BUG-${number}: a change` },
  ...{ url: `https://github.com/acme/api/pull/${number}`, headBranch: 'feature', baseBranch: 'main', state: 'open' },
  ...{ taskIds: [], ...fields },
});

const link = (number: number, fields: object = {}) => ({
  ...{ taskId: `t${number}`, workItemId: `w${number}`, url: `https://github.com/acme/api/pull/${number}` },
  ...{ externalId: `github.com/5001#${number}`, ...fields },
});

const taskList = (count: number, fields?: object) =>
  answered('read-tasks', { tasks: some(count, (each) => task(each, fields)) });

const requests = (count: number, fields?: Partial<PullRequest>, by?: 'backfill' | 'poll') =>
  some(count, (each) => saidOf(request(each, fields), by));

const linked = (count: number) =>
  some(count, (each) => answered('add-link', link(each), { entity: entity.link(pullKey(each), `t${each}`) }));

const issues = (count: number, fields?: Partial<WorkItem>) => some(count, (each) => saidOf(issue(each, fields)));

/** One shape for each kind of delivery, and of answer, that changes rows. */
export const BATCH_SHAPES: readonly BatchShape[] = [
  { name: 'new pull requests that name tasks', before: (count) => [[taskList(count)]], batch: requests },
  { name: 'pull requests of a page of a backfill', batch: (count) => requests(count, {}, 'backfill') },
  {
    name: 'pull requests that name what may be a task',
    batch: (count) => some(count, (each) => saidOf(request(each, { title: `BUG-${each} and IDEA-${each}` }))),
  },
  {
    name: 'pull requests that name a task of their own each more',
    before: (count) => [[taskList(2 * count)], requests(count)],
    batch: (count) =>
      some(count, (each) => saidOf(request(each, { updatedAt: 2_000, title: `BUG-${each}, BUG-${count + each}` }))),
  },
  {
    name: 'pull requests that name items with tasks',
    before: (count) => [
      [answered('read-tasks', { tasks: some(count, (each) => task(each, { source: issueKey(each) })) })],
      issues(count),
    ],
    batch: (count) => some(count, (each) => saidOf(request(each, { title: `Fixes ENG-${each}` }))),
  },
  {
    name: 'pull requests that name documents',
    before: (count) => [[taskList(count)]],
    batch: (count) =>
      some(count, (each) => saidOf(request(each, { description: `https://app.example.com/workspace/docs/d${each}` }))),
  },
  { name: 'work items that become tasks', batch: issues },
  {
    name: 'work items that change',
    before: (count) => [issues(count), some(count, (each) => saidOf(request(each, { title: `ENG-${each}` })))],
    batch: (count) =>
      some(count, (each) => saidOf(issue(each, { updatedAt: 2_000, identifier: `ENG-${1_000 + each}` }))),
  },
  {
    name: 'work items whose tasks come',
    before: (count) => [issues(count), some(count, (each) => saidOf(request(each, { title: `ENG-${each}` })))],
    batch: (count) =>
      some(count, (each) => answered('saw-task', task(each, { source: issueKey(each), workspaceId: 'w' }))),
  },
  {
    name: 'pull requests that are gone',
    before: (count) => [[taskList(count)], requests(count)],
    batch: (count) => requests(count, { updatedAt: 2_000, gone: true }),
  },
  {
    name: 'links that are wanted no more before they were added',
    before: (count) => [[taskList(count)], requests(count)],
    seed: recordsNameTask,
    batch: (count) => requests(count, { updatedAt: 2_000, title: 'A change' }),
  },
  {
    name: 'links that are wanted no more while they are added',
    before: (count) => [[taskList(count)], requests(count)],
    seed: async (query) => {
      await query.updateTable('outbox').set({ state: 'sending', sent: '{}' }).where('kind', '=', 'link').execute();
    },
    batch: (count) => requests(count, { updatedAt: 2_000, title: 'A change' }),
  },
  {
    name: 'links to take away',
    before: (count) => [[taskList(count)], requests(count), linked(count)],
    batch: (count) => requests(count, { updatedAt: 2_000, title: 'A change' }),
  },
  {
    name: 'links to take away of which nobody knows who made them',
    before: (count) => [
      [taskList(count)],
      requests(count),
      some(count, (each) => answered('saw-record', record(each, { taskIds: [`t${each}`] }), { seconds: 1 })),
    ],
    batch: (count) => requests(count, { updatedAt: 2_000, title: 'A change' }),
  },
  {
    name: 'comments of our own',
    seed: (query, count) => saveRows(query, 'notices', some(count, noticeOf)),
    batch: (count) => some(count, (each) => commented(each, `Linked to BUG-${each}.`)),
  },
  {
    name: 'comments of others, for which the item is fetched',
    seed: (query, count) => saveRows(query, 'notices', some(count, noticeOf)),
    batch: (count) => some(count, (each) => commented(each, 'Thanks!')),
  },
  {
    name: 'what contradicts what is held, so that it is fetched',
    before: (count) => [requests(count)],
    batch: (count) => requests(count, { title: 'Another title' }, 'poll'),
  },
  {
    name: 'a page of records that nobody knew',
    before: (count) => [requests(count)],
    batch: (count) => [
      answered('read-pull-requests', { pullRequests: some(count, (each) => record(each, { title: 'Theirs' })) }),
    ],
  },
  {
    name: 'a page of records that tell of links',
    before: (count) => [[taskList(count)], requests(count), linked(count)],
    batch: (count) => [
      answered('read-records', { pullRequests: some(count, (each) => record(each)) }, { seconds: 60 }),
    ],
  },
  {
    name: 'a page of records during a sweep',
    before: (count) => [[taskList(count)], requests(count), some(count, (each) => recorded(each))],
    seed: (query) => saveRows(query, 'workspace_sweeps', [SWEEP]),
    batch: (count) => [
      answered(
        'read-pull-requests',
        { pullRequests: some(count, (each) => record(each, { title: 'Theirs', taskIds: [`t${each}`] })) },
        { seconds: 1e6 },
      ),
    ],
  },
  {
    name: 'records as we wrote them',
    before: (count) => [requests(count)],
    batch: (count) => some(count, (each) => recorded(each)),
  },
  {
    name: 'records that somebody edited',
    before: (count) => [requests(count), some(count, (each) => recorded(each))],
    batch: (count) =>
      some(count, (each) => answered('saw-record-edit', record(each, { title: 'Theirs' }), { seconds: 1e6 })),
  },
  {
    name: 'answers to links',
    before: (count) => [[taskList(count)], requests(count)],
    batch: linked,
  },
  {
    name: 'lists of links of tasks',
    before: (count) => [[taskList(count)], requests(count)],
    batch: (count) =>
      some(count, (each) =>
        answered('read-links', { workItems: [link(each)] }, { entity: entity.readLinks(`t${each}`), seconds: 60 }),
      ),
  },
  {
    name: 'lists of links that were known',
    before: (count) => [[taskList(count)], requests(count), linked(count)],
    batch: (count) =>
      some(count, (each) =>
        answered('read-links', { workItems: [link(each)] }, { entity: entity.readLinks(`t${each}`), seconds: 60 }),
      ),
  },
  {
    name: 'a list of links that people made',
    before: (count) => [[taskList(count)], issues(count)],
    batch: (count) => [
      answered(
        'read-links',
        { workItems: some(count, (each) => link(each, { url: issue(each).url, externalId: null })) },
        { entity: entity.readLinks('t1'), seconds: 60 },
      ),
    ],
  },
  {
    name: 'links that people made',
    before: (count) => [[taskList(count)], issues(count)],
    batch: (count) =>
      some(count, (each) => answered('saw-link', link(each, { url: issue(each).url, externalId: null }))),
  },
  {
    name: 'links that people took away',
    before: (count) => [[taskList(count)], requests(count), linked(count)],
    batch: (count) => some(count, (each) => answered('saw-link-removed', link(each), { seconds: 60 })),
  },
  {
    name: 'links that are seen as we made them',
    before: (count) => [[taskList(count)], requests(count), linked(count)],
    batch: (count) => some(count, (each) => answered('saw-link', link(each), { seconds: 60 })),
  },
  {
    name: 'documents as they stand',
    before: (count) => [
      [taskList(count)],
      some(count, (each) => saidOf(request(each, { description: `https://app.example.com/workspace/docs/d${each}` }))),
    ],
    batch: (count) => [
      answered('saw-documents', { documents: some(count, (each) => ({ documentId: `d${each}` })) }, { seconds: 60 }),
    ],
  },
  {
    name: 'documents that people moved',
    before: (count) => [
      [taskList(count)],
      some(count, (each) => saidOf(request(each, { description: `https://app.example.com/workspace/docs/d${each}` }))),
    ],
    seed: async (query) => {
      const known = JSON.stringify({ taskId: 't1', isMissing: false });
      await query.updateTable('entities').set({ known, task_id: 't1' }).where('kind', '=', 'document').execute();
      await saveRows(query, 'workspace_sweeps', [SWEEP]);
    },
    batch: (count) =>
      some(count, (each) =>
        answered('read-document', { taskId: 't0' }, { entity: entity.readDocument(`d${each}`), seconds: 60 }),
      ),
  },
  {
    name: 'records that a list lacks',
    before: (count) => [requests(count), some(count, (each) => recorded(each))],
    seed: (query) =>
      saveRows(query, 'workspace_sweeps', [{ ...SWEEP, tasks_at: START, list_began_at: START + 60_000 }]),
    batch: () => [answered('compare-records', null, { seconds: 60 })],
  },
  {
    name: 'records of which more are compared in another part',
    seed: (query) =>
      saveRows(query, 'workspace_sweeps', [{ ...SWEEP, list_began_at: START + 60_000 }]).then(() =>
        saveRows(query, 'entities', some(101, recordOfNobody)),
      ),
    batch: () => [answered('compare-records', null, { seconds: 60 })],
  },
  {
    name: 'the last page of records of a list from before the sweep',
    before: (count) => [requests(count)],
    seed: (query) => saveRows(query, 'workspace_sweeps', [SWEEP]),
    batch: (count) => {
      const page = answered('read-pull-requests', { pullRequests: some(count, (each) => record(each)) });
      return [{ ...page, answer: page.answer && { ...page.answer, cursor: 'c' } }];
    },
  },
  {
    name: 'a list of tasks during a sweep',
    before: (count) => [[taskList(2 * count)]],
    seed: (query) => saveRows(query, 'workspace_sweeps', [SWEEP]),
    batch: (count) => [
      answered('read-tasks', { tasks: some(count, (each) => task(each, { title: 'Another' })) }, { seconds: 60 }),
    ],
  },
  {
    name: 'tasks that were made',
    before: (count) => [issues(count)],
    batch: (count) =>
      some(count, (each) =>
        answered('create-task', task(each, { source: issueKey(each), workspaceId: 'w' }), {
          entity: entity.task(issueKey(each)),
        }),
      ),
  },
  { name: 'a first list of tasks', before: (count) => [requests(count)], batch: (count) => [taskList(count)] },
  {
    name: 'a list of tasks that were all finished',
    before: (count) => [[taskList(count)], requests(count), linked(count)],
    batch: (count) => [taskList(count, { status: 'completed', updatedAt: '2026-01-02T00:00:00Z' })],
  },
  {
    name: 'a list that lacks all tasks',
    before: (count) => [[taskList(count)]],
    batch: () => [answered('read-tasks', { tasks: [] }, { seconds: LATE })],
  },
  {
    name: 'a list that settles creates with an unknown outcome',
    before: (count) => [issues(count)],
    seed: (query) =>
      query
        .updateTable('outbox')
        .set({ state: 'unknown', sent: SENT })
        .execute()
        .then(() => undefined),
    batch: (count) => [
      answered('read-tasks', {
        tasks: some(count, (each) => task(each, { source: each % 2 ? issueKey(each) : 'api' })),
      }),
    ],
  },
  {
    name: 'a list that settles creates whose tasks were known',
    before: (count) => [issues(count)],
    seed: async (query, count) => {
      await outcomesUnknown(query, 0);
      const made = some(count, (each) => task(each, { source: issueKey(each) }));
      await saveRows(
        query,
        'tasks',
        made.map((each) => ({ ...taskRow(each), seen_at: START })),
      );
    },
    batch: (count) => [
      answered('read-tasks', { tasks: some(count, (each) => task(each, { source: issueKey(each) })) }, { seconds: 60 }),
    ],
  },
  {
    name: 'a list that lacks the tasks of creates',
    before: (count) => [issues(count)],
    seed: (query) => outcomesUnknown(query, 0),
    batch: () => [answered('read-tasks', { tasks: [] }, { seconds: LATE })],
  },
  {
    name: 'a list that comes too early for creates',
    before: (count) => [issues(count)],
    seed: (query) => outcomesUnknown(query, START + LATE * 1_000 + 1),
    batch: () => [answered('read-tasks', { tasks: [] }, { seconds: LATE })],
  },
  {
    name: 'pages of which elements cannot be read',
    batch: (count) =>
      some(count, (each) => ({
        ...saidOf(issue(each), 'poll'),
        rejected: [{ content: String(each), body: Buffer.from('[]'), reason: 'over_budget: much' }],
      })),
  },
  {
    name: 'a look at open items by other rules',
    before: (count) => [[taskList(count)], requests(count), issues(count)],
    batch: () => [],
    again: (count) => [...some(count, pullKey), ...some(count, issueKey)],
  },
];

const SWEEP = {
  ...{ id: 1, started_at: START, tasks_at: null, tasks: 0, list_began_at: null },
  ...{ records: 0, records_at: null, finished_at: null },
};

async function outcomesUnknown(query: Scope, not_before: number): Promise<void> {
  await saveTaskMarks(query, { source: true, description: true });
  const unknown = { state: 'unknown', sent: SENT, not_before } as const;
  await query.updateTable('outbox').set(unknown).where('kind', '=', 'task').execute();
}

async function recordsNameTask(query: Scope): Promise<void> {
  const known = JSON.stringify({ title: 'A change', taskIds: ['t1'] });
  await query.updateTable('entities').set({ known }).where('kind', '=', 'pull_request').execute();
}

function taskRow(made: ReturnType<typeof task>) {
  const { taskId, key, source, status } = made;
  return { task_id: taskId, key, source, status, fields: JSON.stringify(made) };
}

function recordOfNobody(number: number) {
  return { ...blankEntity(`pull_request:github/1/${number}`, 'pull_request'), known: '{}', known_at: START };
}

function recorded(number: number): Translated {
  const name = entity.pullRequest('github', '5001', String(number));
  return answered('record-pull-request', record(number), { entity: name });
}

function noticeOf(number: number) {
  const standing = JSON.stringify({ author: 'us', text: `Linked to BUG-${number}.` });
  return {
    ...({ item_key: issueKey(number), kind: 'comment', connection: 'tracker', wanted: null, done: null } as const),
    ...({ state: 'done', not_before: 0, attempts: 0, error: null, standing } as const),
  };
}

function commented(number: number, text: string): Translated {
  const references = [TRACKER.reference(issue(number))];
  return said(TRACKER, { outcome: 'references', references, comment: { author: 'us', text } });
}

/** Makes what is to be there before a batch of this shape. */
export async function makeReady(query: Scope, shape: BatchShape, count: number): Promise<void> {
  await openRecords(query);
  for (const batch of shape.before?.(count) ?? []) await takeBatch(query, batch, 1);
  await shape.seed?.(query, count);
}

export function takeShape(query: Scope, shape: BatchShape, count: number): Promise<void> {
  return takeBatch(query, shape.batch(count), LATE + 60, shape.again?.(count));
}
