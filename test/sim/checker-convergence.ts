import { statusDifferences } from './checker-tasks.ts';
import { commentDifferences } from './checker-written.ts';
import type { Event, Look } from './history.ts';
import { linkedSinceBackup } from './since-backup.ts';

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
      // What becomes of an item that is done or gone, and of its task, is its own affair.
      if (isOfItem && !open.has(item)) return [];
      const names = urls.map((url) => `${taskId} ${url}`);
      // What becomes of what people made or took away depends on what was known by then.
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
