import type { Store } from '../../src/store/workspace-scope.ts';
import { commentDifferences } from './checker-waste.ts';
import { type Event, type Look, linkedSinceBackup } from './history.ts';
import { WORKSPACE } from './network.ts';

/** In what the workspace is not as the providers are, and as people left it; empty when all is well. */
export function differences(look: Look, events: readonly Event[]): string[] {
  return [
    ...recordDifferences(look, events),
    ...linkDifferences(look, events),
    ...issueDifferences(look),
    ...commentDifferences(look, events),
    ...statusDifferences(look, events),
  ];
}

type Row = Readonly<Record<string, unknown>>;

const nameOf = ({ provider, repoId, identifier }: Row) => [provider, repoId, identifier].join(' ');

function recordDifferences({ records, pulls }: Look, events: readonly Event[]): string[] {
  const isRestored = events.some(({ what }) => what === 'restored');
  const held = new Map(records.map((record) => [nameOf(record), record]));
  const wanted = new Set(pulls.map(({ record }) => nameOf(record)));
  return [
    ...[...held.keys()]
      .filter((name) => !wanted.has(name))
      .map((name) => `record ${name}: there is no such pull request`),
    ...pulls.flatMap(({ record, isUnheard }) => {
      const found = held.get(nameOf(record));
      // A record that the restored backup knows nothing of stays as people leave it.
      if (isUnheard && (!found || isRestored)) return [];
      if (!found) return [`record ${nameOf(record)}: missing`];
      return Object.entries(record)
        .filter(([field, value]) => JSON.stringify(found[field]) !== JSON.stringify(value))
        .map(
          ([field, value]) =>
            `record ${nameOf(record)}: ${field} is ${JSON.stringify(found[field])}, not ${JSON.stringify(value)}`,
        );
    }),
  ];
}

function linkDifferences({ records, pulls, tasks, links, issues }: Look, events: readonly Event[]): string[] {
  const touched = new Set(events.flatMap((event) => (isTouch(event) ? [`${event.task} ${event.url}`] : [])));
  // Links of ours that a restored backup does not know are as if people had made them.
  const isRestored = events.some(({ what }) => what === 'restored');
  const touchedTasks = linkedSinceBackup(events);
  const present = new Set(links.map(({ taskId, url }) => `${taskId} ${url}`));
  const open = new Set(issues.filter(({ isWanted }) => isWanted).map(({ key }) => key));
  const pages = new Map(issues.map(({ key, url }) => [key, url]));
  const recorded = new Set(records.map(nameOf));
  // An older backup does not know of a backfill: what that had come to by then is all that is there.
  const heard = pulls.filter(({ record, isUnheard }) => !isUnheard || (!isRestored && recorded.has(nameOf(record))));
  return heard.flatMap(({ urls, named, item }) =>
    tasks.flatMap(({ taskId, key, source }) => {
      // The tasks of an item: the one that was made of it, and those that its text names.
      const page = pages.get(item ?? '');
      const isOfItem =
        item !== undefined && (source === item || (page !== undefined && present.has(`${taskId} ${page}`)));
      // Tasks of items that are done or deleted may or may not be linked.
      if (isOfItem && !open.has(item)) return [];
      const names = urls.map((url) => `${taskId} ${url}`);
      // Links that people added or removed depend on what was known at that time.
      if (names.some((name) => touched.has(name))) return [];
      const isWanted = isOfItem || named.includes(key);
      const isPresent = names.some((name) => present.has(name));
      if (isWanted === isPresent || (isRestored && !isWanted) || touchedTasks.has(taskId)) return [];
      return [`link of ${key} to ${urls.at(-1)}: ${isWanted ? 'missing' : 'nobody wants it'}`];
    }),
  );
}

function isTouch(event: Event): event is Extract<Event, { what: 'linked' | 'unlinked' }> {
  return event.what === 'linked' || event.what === 'unlinked';
}

function issueDifferences({ issues, tasks, links }: Look): string[] {
  return issues.flatMap(({ key, url, isWanted }) => {
    const own = tasks.filter(({ source }) => source === key);
    // An item that names a task that is there gets none of its own.
    const hasAny = links.some((link) => link.url.startsWith(url));
    if (own.length === 0) return isWanted && !hasAny ? [`item ${key}: no task`] : [];
    const { taskId } = own[0] as (typeof own)[number];
    const isLinked = links.some((link) => link.taskId === taskId && link.url.startsWith(url));
    return isLinked || !isWanted ? [] : [`item ${key}: its task has no link to it`];
  });
}

type Pull = Look['pulls'][number];
type Task = Look['tasks'][number];

/** Updates of one task in a run after which worksync may have stopped because it suspects a fight. */
const MOST_MOVES = 5;
/** For so long worksync trusts the status that it knows before it writes another one, milliseconds. */
const TRUSTED = 60_000;
/** Statuses that no rule of these days sets, so that they are certainly a person's. */
const ONLY_BY_PEOPLE: ReadonlySet<string> = new Set(['planned', 'blocked']);

/** Tasks whose status is neither what their pull requests lead to nor what a person set; empty on days without rules for it. */
function statusDifferences(look: Look, events: readonly Event[]): string[] {
  const isOn = events.some((event) => event.what === 'configured' && event.workflow !== undefined);
  // A restored backup knows neither the statuses that worksync has set since nor when people set theirs.
  if (!isOn || events.some(({ what }) => what === 'restored')) return [];
  const byHand = new Set(events.flatMap((event) => (isTouch(event) ? [event.task] : [])));
  const pages = look.issues.map(({ url }) => url);
  return look.tasks.flatMap((task) => {
    const isOfItem =
      task.source?.includes(':') ||
      look.links.some(({ taskId, url }) => taskId === task.taskId && pages.some((page) => url.startsWith(page)));
    // Items may be reopened, and people may link what no text names.
    if (isOfItem || byHand.has(task.taskId) || movesOf(task, events).length >= MOST_MOVES) return [];
    const edit = events.findLast((event) => event.what === 'status-set' && event.task === task.taskId);
    return edit === undefined ? fromFacts(task, look.pulls) : fromPerson(task, edit as Edit, events);
  });
}

/** Tasks of which worksync believes that others changed their status back, though nobody did. It is read once all is settled. */
export async function contestsOfNobody({ query }: Store, events: readonly Event[]): Promise<string[]> {
  const heard = new Map(events.flatMap((event) => (event.what === 'heard' ? [[event.id, event.status]] : [])));
  const edited = new Set(
    events.flatMap((event) => (event.what === 'status-set' || event.what === 'finished' ? [event.task] : [])),
  );
  const rows = await query
    .selectFrom('entities')
    .select(['task_id', 'known'])
    .where('kind', '=', 'task_update')
    .execute();
  return rows.flatMap(({ task_id, known }) => {
    const taskId = task_id as string;
    const { contested = [] } = JSON.parse(known ?? '{}') as { readonly contested?: readonly number[] };
    // An update whose answer nobody heard may have arrived after a later one.
    const isUnclear = movesOf({ taskId }, events).some(({ id }) => heard.get(id) !== 200);
    if (contested.length === 0 || edited.has(taskId) || isUnclear) return [];
    return [`status of ${taskId}: worksync believes that somebody changed it back, and nobody did`];
  });
}

type Edit = Extract<Event, { what: 'status-set' }>;

function movesOf(
  { taskId }: Pick<Task, 'taskId'>,
  events: readonly Event[],
): readonly Extract<Event, { what: 'arrived' }>[] {
  return events.filter(
    (event): event is Extract<Event, { what: 'arrived' }> =>
      event.what === 'arrived' &&
      event.server === WORKSPACE &&
      event.method === 'PUT' &&
      event.path.endsWith(`/tasks/${taskId}`) &&
      event.from.startsWith('process-'),
  );
}

function fromFacts({ key, status }: Task, pulls: readonly Pull[]): string[] {
  const named = pulls.filter((pull) => pull.named.includes(key));
  const certain = named.filter(({ title }) => title.includes(`${key}:`));
  // A name in a description may carry the task or only mention it.
  const others = named.filter((pull) => !certain.includes(pull));
  if (others.some(({ ended }) => ended !== null) || isUnclear(named)) return [];
  // Only a backfill reports pull requests that ended before the start, and these move nothing.
  if (named.some(({ isUnheard }) => isUnheard)) return [];
  const allowed = new Set(subsets(others).map((some) => statusOf([...certain, ...some])));
  return allowed.has(status) ? [] : [`status of ${key}: is ${status}, not ${[...allowed].join(' or ')}`];
}

/** Providers that tell whole seconds do not show which of these came first. */
function isUnclear(pulls: readonly Pull[]): boolean {
  const ends = pulls.flatMap(({ ended }) => ended ?? []);
  return pulls.some(({ created, state }) => state === 'open' && ends.some((end) => Math.abs(end - created) < 2_000));
}

/** The decision table of the preset, for pull requests without reviews. */
function statusOf(pulls: readonly Pull[]): string {
  const end = Math.max(0, ...pulls.flatMap(({ ended }) => ended ?? []));
  const open = pulls.filter(({ state, created }) => state === 'open' && (end === 0 || created < end));
  if (open.length === 0) return end > 0 ? 'completed' : 'open';
  return open.some(({ isDraft }) => !isDraft) ? 'review' : 'in_progress';
}

function subsets(pulls: readonly Pull[]): (readonly Pull[])[] {
  const all: (readonly Pull[])[] = [[]];
  for (const pull of pulls) all.push(...all.map((some) => [...some, pull]));
  return all;
}

/**
 * The status of a person stands while nothing newer happens to a pull request that has ever named the task. The acts of the
 * calm day are not recorded, so it counts only before.
 */
function fromPerson(task: Task, { at, status }: Edit, events: readonly Event[]): string[] {
  if (events.some(({ what }) => what === 'calm')) return [];
  const isStanding = ONLY_BY_PEOPLE.has(status) && !isWrittenAt(task, at, events) && !isNewerThan(task, at, events);
  if (!isStanding || task.status === status) return [];
  return [`status of ${task.key}: a person set ${status} at ${at}, and it is ${task.status}`];
}

/** An update may have been decided before worksync could know of the edit, and have arrived after it. */
function isWrittenAt(task: Task, at: number, events: readonly Event[]): boolean {
  const sent = new Map(events.flatMap((event) => (event.what === 'sent' ? [[event.id, event.at]] : [])));
  return movesOf(task, events).some((move) => move.at >= at && (sent.get(move.id) ?? 0) <= at + TRUSTED);
}

interface Change {
  readonly do: string;
  readonly forge?: string;
  readonly number?: number;
  readonly change?: { readonly names?: number; readonly prose?: { readonly task: number; readonly other: number } };
}

function isNewerThan({ key }: Task, at: number, events: readonly Event[]): boolean {
  const wanted = Number(key.split('-')[1]);
  const changes = events.flatMap((event) =>
    event.what === 'happened' ? [{ ...(event.happening as Change), when: event.at }] : [],
  );
  const names = ({ change }: Change) =>
    change?.names === wanted || change?.prose?.task === wanted || change?.prose?.other === wanted;
  const naming = new Set(changes.filter(names).map(({ forge, number }) => `${forge}/${number}`));
  return changes.some(({ do: what, forge, number, when }) => {
    return when >= at && ['pull', 'comment'].includes(what) && naming.has(`${forge ?? 'github'}/${number}`);
  });
}
