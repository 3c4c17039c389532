import type { Cluster } from './cluster.ts';
import { type CountedWorkspace, isAmple, subjectOf } from './counted-service.ts';
import type { Arrival } from './counting-door.ts';
import type { Load } from './load.ts';
import { type Replica, until } from './replica.ts';

/** Result of the deliveries, as people find it at the services and as the counting doors counted it. */
export interface Outcome {
  readonly acknowledged: number;
  /** Pull requests without a record, or with one that is older than what was acknowledged last. */
  readonly lost: number;
  /** Records too many. */
  readonly doubled: number;
  /** Requests of those whose quota counts: the most within its short window, and within its long one, of any workspace. */
  readonly mostInMinute: number;
  readonly mostInWindow: number;
  /** Answers 429 of the services. */
  readonly refused: number;
}

/** @param isExcused deliveries that may still be on their way, by workspace and subject */
export async function outcomeOf(
  { workspaces }: Pick<Cluster, 'workspaces'>,
  load: Load,
  isExcused: (workspace: string, subject: string) => boolean = () => false,
): Promise<Outcome> {
  let lost = 0;
  let doubled = 0;
  for (const workspace of workspaces) {
    const titles = await workspace.titles();
    for (const [subject, title] of load.acknowledged.get(workspace.name) ?? [])
      if (!titles.get(subject)?.includes(title) && !isExcused(workspace.name, subject)) lost++;
    for (const records of titles.values()) doubled += records.length - 1;
    doubled += createdTwice(workspace);
  }
  const specified = workspaces.filter((each) => !isAmple(each));
  const most = (span: 'burstWindow' | 'window') =>
    Math.max(0, ...specified.map(({ key, door, quota }) => door.mostWithin(key, quota[span])));
  const doors = [...new Set(workspaces.map(({ door }) => door))];
  return {
    acknowledged: load.count().acknowledged,
    ...{ lost, doubled },
    mostInMinute: most('burstWindow'),
    mostInWindow: most('window'),
    refused: doors.flatMap(({ arrivals }) => arrivals).filter(({ status }) => status === 429).length,
  };
}

/** Creations that the service did more than once. */
function createdTwice({ key, door }: CountedWorkspace): number {
  const bodies = door.arrivals
    .filter((arrival) => arrival.key === key && arrival.method === 'POST' && arrival.status === 201)
    .map(({ path, body }) => `${path} ${body}`);
  return bodies.length - new Set(bodies).size;
}

/** Milliseconds from `since` until replicas that live, and are not this one, hold all workspaces. */
export async function takenOver(cluster: Cluster, since: number, from?: Replica): Promise<number> {
  await until('all workspaces are taken over', async () => {
    const holders = [...((await cluster.holders())?.values() ?? [])];
    return holders.length === cluster.workspaces.length && holders.every((one) => one !== from && one.isAlive());
  });
  return performance.now() - since;
}

/** Milliseconds from `since` until a pull request that came after it has left for each workspace. */
export async function allMove({ workspaces }: Cluster, load: Load, since: number): Promise<number> {
  const lefts = await Promise.all(
    workspaces.filter(isAmple).map(async (workspace) => {
      const subject = subjectOf(await load.post(workspace));
      const isAbout = ({ key, body }: Arrival) => key === workspace.key && body.includes(`"${subject},`);
      await until(`${workspace.name} moves`, () => workspace.door.arrivals.some(isAbout));
      return workspace.door.arrivals.find(isAbout)?.at ?? 0;
    }),
  );
  return Math.max(...lefts) - since;
}

/** Resolves when each workspace whose quota counts has used up its long window. */
export async function isUsedUp({ workspaces }: Cluster): Promise<void> {
  const scarce = workspaces.filter((each) => !isAmple(each));
  await until(
    'the quota is used up',
    () => scarce.every(({ key, door, quota }) => door.mostWithin(key, quota.window) >= quota.requests),
    LONGEST,
  );
}

/** Resolves as soon as the record of a pull request is on its way from this replica: it has come, and no answer has left. */
export async function isSending(cluster: Cluster, replica: Replica): Promise<void> {
  const holders = await cluster.holders();
  const own = cluster.workspaces.filter(({ name }) => holders?.get(name) === replica);
  const isOn = ({ key, door }: CountedWorkspace) =>
    door.arrivals.some((arrival) => arrival.key === key && isRecord(arrival) && !arrival.isOver);
  await until(`${replica.name} sends`, () => own.some(isOn));
}

function isRecord({ method, path, body }: Arrival): boolean {
  return method !== 'GET' && path.includes('/pull-request-records') && body !== '';
}

/** Milliseconds from `since` until everything that was acknowledged is recorded: of these workspaces, with these titles. */
export async function allRecorded(
  workspaces: readonly CountedWorkspace[],
  load: Load,
  since: number,
  kind: 'Change' | 'Item' | '' = '',
): Promise<number> {
  let left = workspaces;
  await until(
    () => `everything is recorded of ${left.map(({ name }) => name).join(', ')}`,
    async () => {
      const next: CountedWorkspace[] = [];
      for (const workspace of left) if (!(await isRecorded(workspace, load, kind))) next.push(workspace);
      left = next;
      return left.length === 0;
    },
    LONGEST,
  );
  return performance.now() - since;
}

async function isRecorded(workspace: CountedWorkspace, load: Load, kind: string): Promise<boolean> {
  const titles = await workspace.titles();
  return [...(load.acknowledged.get(workspace.name) ?? [])].every(
    ([subject, title]) => !subject.startsWith(kind) || titles.get(subject)?.includes(title),
  );
}

/** Resolves when worksync has created a task in each workspace. */
export async function haveTasks(cluster: Cluster): Promise<void> {
  await until('each workspace has a task', async () => {
    const [found] = await cluster.ask<{ workspaces: string }>(WORKSPACES_WITH_TASKS);
    return Number(found?.workspaces) === cluster.workspaces.length;
  });
}

const WORKSPACES_WITH_TASKS = `select count(distinct workspace) as workspaces from worksync.entities
  where kind = 'task' and remote_id is not null`;

/** Creations that nobody knows to be carried out or not, by workspace and subject. */
export async function openCreations(cluster: Cluster): Promise<ReadonlySet<string>> {
  const rows = await cluster.ask<{ name: string; entity: string }>(OPEN_CREATIONS);
  return new Set(rows.map(({ name, entity }) => `${name} Item ${entity.split(':').at(-1)}`));
}

const OPEN_CREATIONS = `select w.name, o.entity from worksync.outbox o join worksync.workspaces w on w.id = o.workspace
  where o.kind = 'task' and o.state in ('sending', 'unknown')`;

/**
 * The longest time from an item's acknowledgement, or from the end of the takeover if that was later, until its creation came to
 * the service. Call it when all items have their tasks.
 *
 * @param isOpen creations that were in flight when the fault struck: they wait for a list
 */
export function longestCreation(
  workspaces: readonly CountedWorkspace[],
  { itemsAt }: Load,
  takenOverAt: number,
  isOpen: ReadonlySet<string>,
): number {
  let longest = 0;
  for (const { name, key, door } of workspaces) {
    for (const [subject, at] of itemsAt.get(name) ?? []) {
      if (isOpen.has(`${name} ${subject}`)) continue;
      const isAbout = ({ method, body, ...each }: Arrival) =>
        each.key === key && method === 'POST' && body.includes(`"${subject},`);
      const arrival = door.arrivals.find(isAbout);
      if (arrival) longest = Math.max(longest, arrival.at - Math.max(at, takenOverAt));
    }
  }
  return longest;
}

/** Resolves when nothing is left to do, so that nothing can be done twice any more. */
export async function allDone(cluster: Cluster): Promise<void> {
  await until(
    'nothing is left to do',
    async () => {
      const [left] = await cluster.ask<{ count: number }>(LEFT);
      return left?.count === 0;
    },
    LONGEST,
  );
}

/** Resolves when nothing may be sent now: what a dead process had sent waits for its time. */
export async function nothingDue(cluster: Cluster): Promise<void> {
  await until('nothing is due', async () => {
    const [due] = await cluster.ask<{ count: number }>(DUE);
    return due?.count === 0;
  });
}

const DUE = `select ((select count(*) from worksync.inbox where state = 'pending') + (select count(*) from worksync.outbox
  where state = 'sending' or (state = 'pending' and not_before <= extract(epoch from clock_timestamp()) * 1000)))::int as count`;

/** Two windows of the specified quota, and what a creation waits for. */
const LONGEST = 300_000;

const LEFT = `select ((select count(*) from worksync.inbox where state = 'pending')
  + (select count(*) from worksync.outbox where state <> 'held'))::int as count`;

/**
 * Resolves when all deliveries are taken over. What has not been sent by then, or nobody knows it, has a row of its own.
 *
 * @returns whether something waits to be sent, by workspace and subject
 */
export async function allArrived(cluster: Cluster): Promise<(workspace: string, subject: string) => boolean> {
  await until('all deliveries are taken over', async () => (await cluster.ask(PENDING)).length === 0);
  const rows = await cluster.ask<{ name: string; entity: string }>(WAITING);
  const waiting = new Set(rows.map(({ name, entity }) => `${name} ${entity}`));
  return (workspace, subject) => {
    const [kind, number] = subject.split(' ');
    const entity = kind === 'Item' ? `task:generic:desk:issue:${number}` : `pull_request:github/5001/${number}`;
    return waiting.has(`${workspace} ${entity}`);
  };
}

const PENDING = `select id from worksync.inbox where state = 'pending' limit 1`;

const WAITING = `select w.name, o.entity from worksync.outbox o join worksync.workspaces w on w.id = o.workspace`;
