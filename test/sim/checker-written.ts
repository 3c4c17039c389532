import { storedWithin } from './disturbed-store.ts';
import type { Event, Look } from './history.ts';
import { WORKSYNC } from './jira-writes.ts';
import { linkedSinceBackup } from './since-backup.ts';

/** What worksync writes to a tracker, beside people who write there too. */
type Issue = Look['issues'][number];
type Comments = NonNullable<Issue['comments']>;

/** Violations of what must never be, whatever was disturbed. */
export function writtenWrongly(events: readonly Event[]): string[] {
  const look = events.findLast((event) => event.what === 'looked');
  if (!look) return [];
  const commented = look.issues.filter(({ comments }) => comments);
  const remarks = events.filter((event) => event.what === 'remarked');
  return [
    ...commented.flatMap(({ key, comments }) => doubled(key, comments as Comments)),
    ...remarks.flatMap(({ url, text }) => overwritten(commented, url, text)),
    ...closedAgain(events),
  ];
}

function doubled(key: string, comments: Comments): string[] {
  const own = comments.filter(({ author }) => author === WORKSYNC);
  return own.length > 1 ? [`double: ${own.length} comments of worksync on ${key}`] : [];
}

/** What a person wrote stays as it is. */
function overwritten(issues: readonly Issue[], url: string, text: string): string[] {
  const issue = issues.find((each) => each.url === url);
  if (!issue || issue.comments?.some((comment) => comment.author !== WORKSYNC && comment.text === text)) return [];
  return [`overwritten: a person's comment on ${issue.key} is gone or changed`];
}

const TRANSITION = /^\/rest\/api\/3\/issue\/(\d+)\/transitions$/;

/**
 * Whoever reopens what worksync closed finds it open until all its tasks are finished once more: since then one was finished, or
 * one had joined. A closing of which worksync never heard may be repeated.
 */
function closedAgain(events: readonly Event[]): string[] {
  const heard = new Set(events.flatMap((event) => (event.what === 'heard' && event.status !== 0 ? [event.id] : [])));
  const unsure = events.filter(({ what }) => what === 'killed' || what === 'restored').map(({ at }) => at);
  const soon = storedWithin(events);
  const closings = events.flatMap((event) => {
    const isClosing = event.what === 'arrived' && event.method === 'POST' && event.server === 'jira.test';
    const issue = isClosing ? TRANSITION.exec(event.path)?.[1] : undefined;
    return issue === undefined || event.what !== 'arrived'
      ? []
      : [{ at: event.at, issue, isHeard: heard.has(event.id) }];
  });
  return [...Map.groupBy(closings, ({ issue }) => issue).values()].flatMap((all) =>
    all.slice(1).flatMap((closing, index) => {
      const before = all[index] as (typeof all)[number];
      const within = (at: number) => at >= before.at && at <= closing.at;
      const joins = joiningOf(closing.issue, events);
      // One that joined while the closing was on its way, and has left since, was not counted then.
      const isNews = events.some(
        (event) =>
          (isFinish(event) && within(event.at)) ||
          (joins(event) && event.at >= before.at - soon && event.at <= closing.at),
      );
      if (!before.isHeard || isNews || unsure.some(within)) return [];
      return [`overwritten: issue ${closing.issue} was closed at ${before.at}, and once more at ${closing.at}`];
    }),
  );
}

/** A person or a rule finishes a task. */
function isFinish(event: Event): boolean {
  if (event.what === 'arrived') return event.method === 'PUT' && event.body.includes('"status":"completed"');
  return event.what === 'finished' || (event.what === 'status-set' && event.status === 'completed');
}

/** Whether a task gets a link to it. */
function joiningOf(issue: string, events: readonly Event[]): (event: Event) => boolean {
  const looks = events.filter((event) => event.what === 'looked');
  const url = looks.at(-1)?.issues.find(({ key }) => key.endsWith(`:${issue}`))?.url;
  return (event) =>
    event.what === 'arrived' &&
    event.method === 'POST' &&
    event.path.endsWith('/work-items') &&
    (JSON.parse(event.body) as { readonly url: string }).url === url;
}

/** In what the comments do not say what the links are; empty when all is well. */
export function commentDifferences({ issues, tasks, links }: Look, events: readonly Event[]): string[] {
  const touched = new Set(
    events.flatMap((event) => (event.what === 'linked' || event.what === 'unlinked' ? [event.url] : [])),
  );
  const sinceBackup = linkedSinceBackup(events);
  return issues.flatMap(({ key, url, comments }) => {
    if (!comments || touched.has(url)) return [];
    const keys = tasks.filter(({ taskId }) => links.some((link) => link.taskId === taskId && link.url.startsWith(url)));
    if (keys.some(({ taskId }) => sinceBackup.has(taskId))) return [];
    const wanted = textOf(keys.map((task) => task.key).sort());
    const said = comments.find(({ author }) => author === WORKSYNC)?.text.split('\n')[0];
    // Of what never had a task nothing is said.
    if (said === wanted || (said === undefined && keys.length === 0)) return [];
    return [`comment on ${key}: "${said ?? 'none'}", not "${wanted}"`];
  });
}

function textOf(keys: readonly string[]): string {
  return keys.length === 0 ? 'Not linked to a task any more.' : `Linked to ${new Intl.ListFormat('en').format(keys)}.`;
}
