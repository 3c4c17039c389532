import { entity } from '../../../src/model/change.ts';
import type { PullRequest, WorkItem } from '../../../src/model/item.ts';
import { blankEntity } from '../../../src/store/changes/entities.ts';
import { saveTaskMarks } from '../../../src/store/tasks/task-creations.ts';
import { saveRows } from '../../../src/store/unit-of-work/unit-of-work.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import type { Translated } from '../../../src/sync/reconcile/translate-deliveries.ts';
import { answered, START, said, saidOf, TRACKER, takeBatch } from './batches.ts';
import { pull, workItem } from './items.ts';
import { openRecords } from './records-route.ts';

export interface BatchShape {
  readonly name: string;
  readonly before: readonly Batch[];
  readonly batch: Batch;
  readonly seed?: ((query: Scope, count: number) => Promise<void>) | undefined;
  readonly again?: ((count: number) => readonly string[]) | undefined;
}

type Batch = (count: number) => readonly Translated[];

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

const SWEEP = {
  ...{ id: 1, started_at: START, tasks_at: null as number | null, tasks: 0, list_began_at: null as number | null },
  ...{ records: 0, records_at: null, finished_at: null },
};

/** One delivery for each number up to the count. */
const each =
  (make: (number: number) => Translated): Batch =>
  (count) =>
    some(count, make);
/** One delivery, made of all numbers up to the count. */
const one =
  (make: (numbers: readonly number[]) => Translated): Batch =>
  (count) => [make(some(count, (number) => number))];

const answers = (action: Parameters<typeof answered>[0], make: (number: number) => object, seconds = 0) =>
  each((number) => answered(action, make(number), { seconds }));

const listed = (fields: (number: number) => object = () => ({}), seconds = 0) =>
  one((numbers) =>
    answered('read-tasks', { tasks: numbers.map((number) => task(number, fields(number))) }, { seconds }),
  );
const tasks = listed();
const tasksTwice: Batch = (count) => tasks(2 * count);
const noTasks = one(() => answered('read-tasks', { tasks: [] }, { seconds: LATE }));
const sourced = (number: number) => ({ source: issueKey(number) });

const pulls = (fields: (number: number) => Partial<PullRequest> = () => ({}), by?: 'backfill' | 'poll') =>
  each((number) => saidOf(request(number, fields(number)), by));
const requests = pulls();
const untitled = pulls(() => ({ updatedAt: 2_000, title: 'A change' }));
const documented = pulls((number) => ({ description: `https://app.example.com/workspace/docs/d${number}` }));
const fixing = pulls((number) => ({ title: `ENG-${number}` }));

const titled = (title: (number: number) => string) => pulls((number) => ({ title: title(number) }));
const renamed = each((number) => saidOf(issue(number, { updatedAt: 2_000, identifier: `ENG-${1_000 + number}` })));
const issues = each((number) => saidOf(issue(number)));

const page = (action: 'read-pull-requests' | 'read-records', fields: (number: number) => object, seconds = 0) =>
  one((numbers) =>
    answered(action, { pullRequests: numbers.map((number) => record(number, fields(number))) }, { seconds }),
  );
const theirs = () => ({ title: 'Theirs' });
const linking = (number: number) => record(number, { taskIds: [`t${number}`] });
const edited = (number: number) => record(number, theirs());
const ofIssue = (number: number) => task(number, { ...sourced(number), workspaceId: 'w' });
const LISTED = { list_began_at: START + 60_000 };
const records = each((number) =>
  answered('record-pull-request', record(number), { entity: entity.pullRequest('github', '5001', String(number)) }),
);
const compared = one(() => answered('compare-records', null, { seconds: 60 }));

const linked = each((number) =>
  answered('add-link', link(number), { entity: entity.link(pullKey(number), `t${number}`) }),
);
const linkLists = each((number) =>
  answered('read-links', { workItems: [link(number)] }, { entity: entity.readLinks(`t${number}`), seconds: 60 }),
);
const byPeople = (number: number) => link(number, { url: issue(number).url, externalId: null });

const swept =
  (fields: Partial<typeof SWEEP> = {}) =>
  (query: Scope) =>
    saveRows(query, 'workspace_sweeps', [{ ...SWEEP, ...fields }]);
const noticed = (query: Scope, count: number) => saveRows(query, 'notices', some(count, noticeOf));

type Row = readonly [
  name: string,
  before: readonly Batch[],
  batch: Batch,
  seed?: BatchShape['seed'],
  again?: BatchShape['again'],
];

/** One shape for each kind of delivery, and of answer, that changes rows. */
const ROWS: readonly Row[] = [
  ['new pull requests that name tasks', [tasks], requests],
  ['pull requests of a page of a backfill', [], pulls(undefined, 'backfill')],
  ['pull requests that name what may be a task', [], titled((number) => `BUG-${number} and IDEA-${number}`)],
  ['pull requests that name a task of their own each more', [tasksTwice, requests], namingTwo],
  ['pull requests that name items with tasks', [listed(sourced), issues], titled((number) => `Fixes ENG-${number}`)],
  ['pull requests that name documents', [tasks], documented],
  ['work items that become tasks', [], issues],
  ['work items that change', [issues, fixing], renamed],
  ['work items whose tasks come', [issues, fixing], answers('saw-task', ofIssue)],
  ['pull requests that are gone', [tasks, requests], pulls(() => ({ updatedAt: 2_000, gone: true }))],
  ['links that are wanted no more before they were added', [tasks, requests], untitled, recordsNameTask],
  ['links that are wanted no more while they are added', [tasks, requests], untitled, linksInFlight],
  ['links to take away', [tasks, requests, linked], untitled],
  [
    'links to take away of which nobody knows who made them',
    [tasks, requests, answers('saw-record', linking, 1)],
    untitled,
  ],
  ['comments of our own', [], each((number) => commented(number, `Linked to BUG-${number}.`)), noticed],
  ['comments of others, for which the item is fetched', [], each((number) => commented(number, 'Thanks!')), noticed],
  [
    'what contradicts what is held, so that it is fetched',
    [requests],
    pulls(() => ({ title: 'Another title' }), 'poll'),
  ],
  ['a page of records that nobody knew', [requests], page('read-pull-requests', theirs)],
  ['a page of records that tell of links', [tasks, requests, linked], page('read-records', () => ({}), 60)],
  [
    'a page of records during a sweep',
    [tasks, requests, records],
    page('read-pull-requests', (number) => ({ ...theirs(), taskIds: [`t${number}`] }), 1e6),
    swept(),
  ],
  ['records as we wrote them', [requests], records],
  ['records that somebody edited', [requests, records], answers('saw-record-edit', edited, 1e6)],
  ['answers to links', [tasks, requests], linked],
  ['lists of links of tasks', [tasks, requests], linkLists],
  ['lists of links that were known', [tasks, requests, linked], linkLists],
  [
    'a list of links that people made',
    [tasks, issues],
    one((numbers) =>
      answered('read-links', { workItems: numbers.map(byPeople) }, { entity: entity.readLinks('t1'), seconds: 60 }),
    ),
  ],
  ['links that people made', [tasks, issues], answers('saw-link', byPeople)],
  ['links that people took away', [tasks, requests, linked], answers('saw-link-removed', link, 60)],
  ['links that are seen as we made them', [tasks, requests, linked], answers('saw-link', link, 60)],
  [
    'documents as they stand',
    [tasks, documented],
    one((numbers) =>
      answered(
        'saw-documents',
        { documents: numbers.map((number) => ({ documentId: `d${number}` })) },
        { seconds: 60 },
      ),
    ),
  ],
  [
    'documents that people moved',
    [tasks, documented],
    each((number) =>
      answered('read-document', { taskId: 't0' }, { entity: entity.readDocument(`d${number}`), seconds: 60 }),
    ),
    documentsMoved,
  ],
  ['records that a list lacks', [requests, records], compared, swept({ tasks_at: START, ...LISTED })],
  ['records of which more are compared in another part', [], compared, manyRecords],
  ['the last page of records of a list from before the sweep', [requests], lastPage, swept()],
  ['a list of tasks during a sweep', [tasksTwice], listed(() => ({ title: 'Another' }), 60), swept()],
  [
    'tasks that were made',
    [issues],
    each((number) => answered('create-task', ofIssue(number), { entity: entity.task(issueKey(number)) })),
  ],
  ['a first list of tasks', [requests], tasks],
  [
    'a list of tasks that were all finished',
    [tasks, requests, linked],
    listed(() => ({ status: 'completed', updatedAt: '2026-01-02T00:00:00Z' })),
  ],
  ['a list that lacks all tasks', [tasks], noTasks],
  [
    'a list that settles creates with an unknown outcome',
    [issues],
    listed((number) => ({ source: number % 2 ? issueKey(number) : 'api' })),
    allUnknown,
  ],
  ['a list that settles creates whose tasks were known', [issues], listed(sourced, 60), tasksKnown],
  ['a list that lacks the tasks of creates', [issues], noTasks, (query) => outcomesUnknown(query, 0)],
  [
    'a list that comes too early for creates',
    [issues],
    noTasks,
    (query) => outcomesUnknown(query, START + LATE * 1_000 + 1),
  ],
  ['pages of which elements cannot be read', [], unreadable],
  [
    'a look at open items by other rules',
    [tasks, requests, issues],
    () => [],
    undefined,
    (count) => [...some(count, pullKey), ...some(count, issueKey)],
  ],
];

export const BATCH_SHAPES: readonly BatchShape[] = ROWS.map(([name, before, batch, seed, again]) => ({
  ...{ name, before, batch, seed, again },
}));

function namingTwo(count: number): readonly Translated[] {
  return pulls((number) => ({ updatedAt: 2_000, title: `BUG-${number}, BUG-${count + number}` }))(count);
}

function lastPage(count: number): readonly Translated[] {
  return page('read-pull-requests', () => ({}))(count).map((each) => ({
    ...each,
    answer: each.answer && { ...each.answer, cursor: 'c' },
  }));
}

function unreadable(count: number): readonly Translated[] {
  const rejected = (number: number) => [{ content: `${number}`, body: Buffer.from('[]'), reason: 'over_budget: much' }];
  return some(count, (number) => ({ ...saidOf(issue(number), 'poll'), rejected: rejected(number) }));
}

async function linksInFlight(query: Scope): Promise<void> {
  await query.updateTable('outbox').set({ state: 'sending', sent: '{}' }).where('kind', '=', 'link').execute();
}

async function documentsMoved(query: Scope): Promise<void> {
  const known = JSON.stringify({ taskId: 't1', isMissing: false });
  await query.updateTable('entities').set({ known, task_id: 't1' }).where('kind', '=', 'document').execute();
  await swept()(query);
}

async function manyRecords(query: Scope): Promise<void> {
  await swept(LISTED)(query);
  await saveRows(query, 'entities', some(101, recordOfNobody));
}

async function allUnknown(query: Scope): Promise<void> {
  await query.updateTable('outbox').set({ state: 'unknown', sent: SENT }).execute();
}

async function tasksKnown(query: Scope, count: number): Promise<void> {
  await outcomesUnknown(query, 0);
  const made = some(count, (number) => task(number, sourced(number)));
  await saveRows(
    query,
    'tasks',
    made.map((each) => ({ ...taskRow(each), seen_at: START })),
  );
}

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
  for (const batch of shape.before) await takeBatch(query, batch(count), 1);
  await shape.seed?.(query, count);
}

export function takeShape(query: Scope, shape: BatchShape, count: number): Promise<void> {
  return takeBatch(query, shape.batch(count), LATE + 60, shape.again?.(count));
}
