import { expect, it } from 'vitest';
import type { Item, PullRequest, Review, WorkItem } from '../../src/model/item.ts';
import { openBoard, time } from '../support/harness/board.ts';
import { drawn } from '../support/harness/depth.ts';
import { pull, workItem } from '../support/rows/items.ts';

/**
 * Whatever the order, repetition and loss of deliveries, the status of a task is the one of the decision table on the facts.
 *
 * Twelve events over three pull requests and a work item, 100 seconds apart. One delivery is lost, and polls report each
 * item once more at the end. Where the table keeps the present status, each status is right. So it is where the only report of a
 * closing between two reopenings was lost, because the order then decides which of them is known.
 */

const EVENTS = 12;
const APART = 100;
/** Histories whose deliveries are applied together. */
const AT_ONCE = 200;

/** A generator of numbers that the seed repeats. */
function numbersOf(seed: number): (below: number) => number {
  let state = (seed * 2_654_435_761 + 1) >>> 0;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 3_266_489_917) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) % below;
  };
}

type Pulls = (PullRequest | undefined)[];

interface History {
  readonly key: string;
  /** One report for each event, in the order of the events. */
  readonly reports: readonly Item[];
  /** The items as polls report them in the end, without reviews. */
  readonly polled: readonly Item[];
}

/** Draws a history of legal events. */
function historyOf(number: number, draw: (below: number) => number): History {
  const key = `BUG-${number + 1}`;
  const pulls: Pulls = [undefined, undefined, undefined];
  let issue: WorkItem | undefined;
  const reports: Item[] = [];
  for (let event = 1; event <= EVENTS; event++) {
    const at = event * APART;
    const actor = draw(4);
    if (actor === 3) {
      issue = nextIssue(issue, number, key, at, draw);
      reports.push(issue);
      continue;
    }
    const next = nextPull(pulls, actor, { number, key, at, draw });
    pulls[actor] = next;
    reports.push(next);
  }
  const polled = [...pulls, issue].flatMap((item) => {
    if (item === undefined) return [];
    const { reviews: _, phaseChangedAt: __, ...others } = item as PullRequest;
    return [others as Item];
  });
  return { key, reports, polled };
}

function nextIssue(
  issue: WorkItem | undefined,
  number: number,
  key: string,
  at: number,
  draw: (below: number) => number,
) {
  const updatedAt = Date.parse(time(at));
  if (issue === undefined)
    return workItem({
      ...{ key: `jira:cloud-1:issue:${number}`, identifier: `ENG-${number}`, title: `Fixes ${key}`, updatedAt },
      ...{ url: `https://jira.example.com/browse/ENG-${number}`, createdAt: time(at), closedAt: null },
    });
  if (issue.state !== 'done')
    return { ...issue, updatedAt, state: 'done' as const, isDropped: draw(3) === 0, closedAt: time(at) };
  return { ...issue, updatedAt, state: 'open' as const, isDropped: false, closedAt: null };
}

interface PullEvent {
  readonly number: number;
  readonly key: string;
  readonly at: number;
  readonly draw: (below: number) => number;
}

function nextPull(pulls: Pulls, actor: number, { number, key, at, draw }: PullEvent): PullRequest {
  const updatedAt = Date.parse(time(at));
  const now = { updatedAt, phaseChangedAt: time(at), reviews: undefined };
  const present = pulls[actor];
  if (present === undefined) {
    const isRevert = actor === 2 && pulls[0]?.mergedAt != null;
    const identifier = String(number * 10 + actor + 1);
    const texts = [
      { title: `Fixes ${key}` },
      { title: 'A part', headBranch: `${key.toLowerCase()}-part` },
      isRevert
        ? { title: `Revert "Fixes ${key}"`, reverts: pulls[0]?.identifier as string }
        : { title: 'Other work', description: `See ${key}` },
    ][actor];
    return pull({
      ...{ key: `github:github.com:5001:pull:${identifier}`, identifier, createdAt: time(at), isPublic: false },
      ...{
        url: `https://github.com/acme/app/pull/${identifier}`,
        author: 'ann',
        defaultBranch: 'main',
        mergedAt: null,
      },
      ...{ draft: draw(3) === 0, headBranch: `change-${identifier}`, closedAt: null, ...texts, ...now },
    });
  }
  if (present.mergedAt != null) return { ...present, ...now, labels: [`label-${at}`] };
  if (present.state === 'closed') return { ...present, ...now, state: 'open', closedAt: null };
  const review = (state: Review['state']) => ({ [`${at}`]: { reviewer: 'ben', state, at: time(at) } });
  const isMention = actor === 2 && present.reverts === undefined;
  switch (draw(isMention ? 5 : 6)) {
    case 0:
      return { ...present, ...now, draft: !present.draft };
    case 1:
      return { ...present, ...now, reviews: review('approved'), phaseChangedAt: present.phaseChangedAt };
    case 2:
      return { ...present, ...now, reviews: review('changes'), phaseChangedAt: present.phaseChangedAt };
    case 3:
      return { ...present, ...now, reviews: review('commented'), phaseChangedAt: present.phaseChangedAt };
    case 4:
      return { ...present, ...now, state: 'closed', closedAt: time(at) };
    default:
      return { ...present, ...now, state: 'merged', mergedAt: time(at), closedAt: time(at) };
  }
}

/** The facts that were delivered: the last state of each item, all reviews, and when the work item was reopened. */
interface Facts {
  readonly pulls: readonly (PullRequest | undefined)[];
  readonly issue: WorkItem | undefined;
  readonly reviews: readonly (readonly Review[])[];
  /** When the work item was reopened, epoch milliseconds: it is open, and was closed before. */
  readonly reopenedAt: number;
}

function factsOf(delivered: readonly Item[], polled: readonly Item[]): Facts {
  const ofActor = (items: readonly Item[], actor: number) =>
    items.filter(
      (item): item is PullRequest => item.kind === 'pull_request' && Number(item.identifier) % 10 === actor + 1,
    );
  const issues = delivered.filter((item): item is WorkItem => item.kind === 'work_item');
  const actors = [0, 1, 2];
  return {
    pulls: actors.map((actor) => ofActor(polled, actor)[0]),
    issue: polled.find((item): item is WorkItem => item.kind === 'work_item'),
    reviews: actors.map((actor) => ofActor(delivered, actor).flatMap(({ reviews = {} }) => Object.values(reviews))),
    reopenedAt: reopenTimeOf([...issues, ...polled.filter((item): item is WorkItem => item.kind === 'work_item')]),
  };
}

function reopenTimeOf(issues: readonly WorkItem[]): number {
  const closedAt = Math.max(0, ...issues.filter(({ state }) => state === 'done').map(({ updatedAt }) => updatedAt));
  const open = issues.filter(({ state, updatedAt }) => state === 'open' && updatedAt > closedAt);
  const [reopenedAt = 0, ...others] = [...new Set(open.map(({ updatedAt }) => updatedAt))];
  if (closedAt === 0) return 0;
  return others.length === 0 ? reopenedAt : UNKNOWN;
}

const UNKNOWN = Number.NaN;
const ANY = undefined;

/** The decision table, written once more. Returns undefined where the present status stays. */
function tableOf({ pulls, issue, reviews, reopenedAt }: Facts): string | undefined {
  const [first, second, third] = pulls;
  const at = (text: string | null | undefined) => Date.parse(text ?? '');
  const revertedAt =
    third?.reverts !== undefined && third.mergedAt != null && first?.mergedAt != null ? at(third.mergedAt) : 0;
  if (Number.isNaN(reopenedAt)) return ANY;
  const reversedAt = Math.max(revertedAt, reopenedAt);
  const ends = [
    ...(first?.mergedAt != null && revertedAt === 0 ? [at(first.mergedAt)] : []),
    ...(second?.mergedAt != null ? [at(second.mergedAt)] : []),
    ...(issue?.state === 'done' && !issue.isDropped ? [at(issue.closedAt)] : []),
  ];
  const open = [first, second].flatMap((each, actor) =>
    each?.state === 'open' ? [{ createdAt: at(each.createdAt), ...progressOf(each, reviews[actor] ?? []) }] : [],
  );
  const closedAt = [first, second].map((each) => (each?.state === 'closed' ? at(each.closedAt) : 0));
  const valid = ends.filter((end) => end > reversedAt);
  const newest = Math.max(0, ...ends, ...closedAt, ...open.map(({ factAt }) => factAt), revertedAt, reopenedAt);
  if (reversedAt > 0 && valid.length === 0 && newest === reversedAt) return 'in_progress';
  const furthest = (some: typeof open) => (some.some(({ status }) => status === 'review') ? 'review' : 'in_progress');
  if (valid.length > 0) {
    const end = Math.max(...valid);
    const blockers = open.filter(({ createdAt }) => createdAt < end);
    return blockers.length > 0 ? furthest(blockers) : 'completed';
  }
  if (open.length > 0) return furthest(open);
  if (reversedAt > 0) return 'in_progress';
  if (ends.length > 0) return ANY;
  return 'open';
}

function progressOf({ draft, createdAt }: PullRequest, reviews: readonly Review[]): { status: string; factAt: number } {
  const decisive = reviews
    .filter(({ state }) => state !== 'commented')
    .toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const last = draft ? undefined : decisive.at(-1);
  // An approval stands from the first one since the last request for changes; the table needs its time only to compare.
  const factAt = Date.parse(last?.at ?? createdAt ?? '');
  return { status: draft || last?.state === 'changes' ? 'in_progress' : 'review', factAt };
}

function shuffled<Each>(all: readonly Each[], draw: (below: number) => number): Each[] {
  const rest = [...all];
  return all.map(() => rest.splice(draw(rest.length), 1)[0] as Each);
}

const HISTORIES = drawn(50_000, 25);

it(`in any order, repeated, and with each delivery lost in turn, of ${HISTORIES} histories`, {
  timeout: 3_600_000,
}, async () => {
  for (let first = 0; first < HISTORIES; first += AT_ONCE) {
    const numbers = Array.from({ length: Math.min(AT_ONCE, HISTORIES - first) }, (_, index) => first + index);
    const histories = numbers.map((number) => {
      const draw = numbersOf(number);
      const history = historyOf(number, draw);
      const delivered = history.reports.filter((_, index) => index !== number % (EVENTS + 1));
      const order = shuffled([...delivered, ...delivered.filter(() => draw(3) === 0)], draw);
      return { ...history, number, order, expected: tableOf(factsOf(delivered, history.polled)) };
    });
    const board = await openBoard({
      tasks: Object.fromEntries(histories.map(({ key }) => [key, 'open'])),
      workflow: { rules: [{ when: { workItem: ['completed'] }, set: { status: 'completed' } }] },
    });
    const longest = Math.max(...histories.map(({ order }) => order.length));
    let now = (EVENTS + 1) * APART;
    for (let step = 0; step < longest; step++) {
      await board.deliver(
        histories.flatMap(({ order }) => order[step] ?? []),
        now,
      );
      if (step % 3 === 2) await board.send((now += 90));
    }
    await board.deliver(
      histories.flatMap(({ polled }) => polled),
      (now += 10),
      'poll',
    );
    await board.send((now += 90));
    const wrong = histories.filter(({ key, expected }) => expected !== undefined && board.status(key) !== expected);
    expect(wrong.map(({ number, key, expected }) => ({ seed: number, expected, is: board.status(key) }))).toEqual([]);
  }
});
