import { expect, it } from 'vitest';
import type { Item, PullRequest, Review, WorkItem } from '../../src/model/item.ts';
import {
  type Board,
  type Kill,
  type KillOf,
  openBoard,
  type Report,
  type Request,
  time,
  type Webhooks,
} from '../support/harness/board.ts';
import { drawn, sampleOf } from '../support/harness/depth.ts';
import { pull, workItem } from '../support/rows/items.ts';

/**
 * Whatever the order, repetition and loss of deliveries, the status of a task is the one of the decision table on the facts.
 *
 * Twelve events over three pull requests and a work item, 400 seconds apart. The default branch may be renamed after a merge. One delivery is lost, and polls report each
 * item once more at the end. Where the table keeps the present status, each status is right. So it is where the only report of a
 * closing between two reopenings was lost, because the order then decides which of them is known.
 *
 * Reports of the workspace are processed at any later time: answers, its webhooks and its lists, before or after any number of
 * deliveries, also while the next update is in flight. A webhook may be lost or repeated, and lack the time of the task.
 */

const EVENTS = 12;
const APART = 400;
/** Histories whose deliveries are applied together. They are few, so that a fault fails the test in its first half second. */
const AT_ONCE = 10;

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

function historyOf(number: number, draw: (below: number) => number, hasComments = true): History {
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
    const next = nextPull(pulls, actor, { number, key, at, draw, hasComments });
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
  readonly hasComments: boolean;
}

function nextPull(pulls: Pulls, actor: number, { number, key, at, draw, hasComments }: PullEvent): PullRequest {
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
  if (present.mergedAt != null) {
    const renamed = actor === 1 && draw(2) === 0 ? { defaultBranch: 'trunk' } : {};
    return { ...present, ...now, labels: [`label-${at}`], ...renamed };
  }
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
      return {
        ...present,
        ...now,
        reviews: review(hasComments ? 'commented' : 'approved'),
        phaseChangedAt: present.phaseChangedAt,
      };
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
  /** The default branch of the oldest report that contains the merge of the second pull request. */
  readonly mergedInto: string | null | undefined;
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
    mergedInto: [...ofActor(delivered, 1), ...ofActor(polled, 1)]
      .filter(({ mergedAt }) => mergedAt != null)
      .toSorted((left, right) => left.updatedAt - right.updatedAt)[0]?.defaultBranch,
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
function tableOf(facts: Facts): string | undefined {
  const wanted = wantedBy(facts, 0);
  return wanted === 'nothing' ? 'open' : wanted?.status;
}

interface WantedStatus {
  readonly status: string;
  /** The rule may set a lower status than the one that a person set. */
  readonly mayGoBack?: boolean;
  readonly isReversal?: boolean;
}

/** @param epoch what was finished until then, finishes nothing; epoch milliseconds */
function wantedBy(
  { pulls, issue, reviews, mergedInto, reopenedAt }: Facts,
  epoch: number,
): WantedStatus | 'nothing' | undefined {
  const [first, second, third] = pulls;
  const at = (text: string | null | undefined) => Date.parse(text ?? '');
  const revertedAt =
    third?.reverts !== undefined && third.mergedAt != null && first?.mergedAt != null ? at(third.mergedAt) : 0;
  if (Number.isNaN(reopenedAt)) return ANY;
  const reversedAt = Math.max(revertedAt, reopenedAt);
  const spent = Math.max(reversedAt, epoch);
  const reversal = { status: 'in_progress', mayGoBack: true, isReversal: true };
  const isElsewhere = second?.mergedAt != null && mergedInto === 'trunk';
  const ends = [
    ...(first?.mergedAt != null && revertedAt === 0 ? [at(first.mergedAt)] : []),
    ...(second?.mergedAt != null && !isElsewhere ? [at(second.mergedAt)] : []),
    ...(issue?.state === 'done' && !issue.isDropped ? [at(issue.closedAt)] : []),
  ];
  const open = [first, second].flatMap((each, actor) =>
    each?.state === 'open' ? [{ createdAt: at(each.createdAt), ...progressOf(each, reviews[actor] ?? []) }] : [],
  );
  const closedAt = [first, second].map((each) => (each?.state === 'closed' ? at(each.closedAt) : 0));
  const valid = ends.filter((end) => end > spent);
  const newest = Math.max(0, ...ends, ...closedAt, ...open.map(({ factAt }) => factAt), revertedAt, reopenedAt);
  if (reversedAt > 0 && valid.length === 0 && newest === reversedAt) return reversal;
  const furthest = (some: typeof open) => {
    const reviewed = some.filter(({ status }) => status === 'review');
    return (reviewed.length > 0 ? reviewed : some).toSorted((left, right) => left.phaseAt - right.phaseAt).at(-1);
  };
  if (valid.length > 0)
    return furthest(open.filter(({ createdAt }) => createdAt < Math.max(...valid))) ?? { status: 'completed' };
  if (reversedAt > 0 && !open.some(({ status }) => status === 'review')) {
    const last = furthest(open);
    return last && last.phaseAt > reversedAt ? last : reversal;
  }
  if (open.length > 0) return furthest(open);
  return ends.length > 0 || isElsewhere ? ANY : 'nothing';
}

interface Progress extends WantedStatus {
  /** When the fact became true by the provider's own times, and when the phase began. Epoch milliseconds. */
  readonly factAt: number;
  readonly phaseAt: number;
}

function progressOf(item: PullRequest, reviews: readonly Review[]): Progress {
  const { draft, createdAt, phaseChangedAt } = item;
  const last = draft ? undefined : decisiveReview(reviews);
  const factAt = Date.parse(last?.at ?? createdAt ?? '');
  const phaseAt = Date.parse(last?.at ?? phaseChangedAt ?? createdAt ?? '');
  const mayGoBack = last?.state === 'changes';
  return { status: draft || mayGoBack ? 'in_progress' : 'review', mayGoBack, factAt, phaseAt };
}

function decisiveReview(reviews: readonly Review[]): Review | undefined {
  const decisive = reviews.filter(({ state }) => state !== 'commented');
  return decisive.toSorted((left, right) => Date.parse(left.at) - Date.parse(right.at)).at(-1);
}

function shuffled<Each>(all: readonly Each[], draw: (below: number) => number): Each[] {
  const rest = [...all];
  return all.map(() => rest.splice(draw(rest.length), 1)[0] as Each);
}

/** Draws the kills of a history, for every third one: about a third of its updates. */
function killsOf(number: number): () => Kill | undefined {
  const draw = numbersOf(number + 2_000_000);
  if (number % 3 !== 0) return () => undefined;
  return () => (draw(3) === 0 ? { isCarriedOut: draw(3) > 0, isReported: draw(2) === 0 } : undefined);
}

/** Writes of one task before the last deliveries. worksync leaves a task that it moves too often in a day. */
const MAX_WRITES = 3;

interface Interleaving {
  readonly board: Board;
  readonly keys: readonly string[];
  readonly draw: (below: number) => number;
  readonly killOf: KillOf;
}

/** One of the things that happen between two deliveries, drawn for each task. Times are seconds. */
async function interleave(
  { board, keys, draw, killOf }: Interleaving,
  requests: Request[],
  now: number,
): Promise<void> {
  if (draw(6) === 0) await board.list(now);
  const isFree = (key: string) => board.writes(key) < MAX_WRITES && !requests.some((request) => request.key === key);
  await board.sendOnly(
    keys.filter((key) => draw(4) === 0 && isFree(key)),
    now,
    killOf,
  );
  for (const key of keys.filter(isFree)) {
    const request = draw(6) === 0 ? await board.begin(key, now) : undefined;
    if (request) requests.push(request);
  }
  for (const request of requests.filter(() => draw(3) === 0)) {
    requests.splice(requests.indexOf(request), 1);
    await request.answer();
  }
  const isWebhook = ({ translated }: Report) => translated.answer?.action === 'saw-task';
  for (const lost of board.reports.filter((report) => isWebhook(report) && draw(4) === 0))
    board.reports.splice(board.reports.indexOf(lost), 1);
  const repeated = board.reports.filter((report) => isWebhook(report) && draw(6) === 0);
  const drawn = board.reports.filter(() => draw(3) === 0);
  board.reports.push(...repeated.map((report) => ({ ...report })));
  await board.process(shuffled(drawn, draw), now);
}

/** Sends and processes everything that is left, until nothing happens any more. */
async function settleAll(board: Board, requests: Request[], from: number): Promise<void> {
  for (const request of requests.splice(0)) await request.answer();
  for (let now = from; now <= from + 10 * MINUTE; now += MINUTE) await board.send(now);
}

const MINUTE = 60;
const WEBHOOKS: readonly Webhooks[] = ['none', 'whole', 'timeless'];
const HISTORIES = drawn(5_000, 400);

it(`in any order, repeated, with each delivery lost in turn, and with kills, of ${HISTORIES} histories`, {
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
      form: (first / AT_ONCE) % 2 === 0 ? 'fields' : 'whole',
      webhooks: WEBHOOKS[(first / AT_ONCE) % WEBHOOKS.length] as Webhooks,
    });
    const kills = new Map(histories.map(({ key, number }) => [key, killsOf(number)]));
    const keys = histories.map(({ key }) => key);
    const interleaving = { board, keys, draw: numbersOf(first), killOf: (key: string) => kills.get(key)?.() };
    const requests: Request[] = [];
    const longest = Math.max(...histories.map(({ order }) => order.length));
    let now = (EVENTS + 1) * APART;
    for (let step = 0; step < longest; step++) {
      const reported = histories.flatMap(({ order }) => order[step] ?? []);
      await board.deliver(reported, (now += step % 2));
      await interleave(interleaving, requests, now);
    }
    const polled = histories.flatMap((history) => history.polled);
    await board.deliver(polled, (now += 10), 'poll');
    await settleAll(board, requests, now);
    const wrong = histories.filter(({ key, expected }) => expected !== undefined && board.status(key) !== expected);
    expect(wrong.map(({ number, key, expected }) => ({ seed: number, expected, is: board.status(key) }))).toEqual([]);
    // Nobody edits, so each status has the rule that set it.
    expect(await board.contests()).toBe(0);
    const explained = await Promise.all(keys.filter((key) => board.writes(key) > 0).map((key) => board.explain(key)));
    expect(explained.filter(({ setBy }) => setBy.who !== 'worksync')).toEqual([]);
  }
});

function ordersOf(numbers: readonly number[]): number[][] {
  if (numbers.length === 0) return [[]];
  return numbers.flatMap((first) => ordersOf(numbers.filter((each) => each !== first)).map((rest) => [first, ...rest]));
}

/** Five reports of one pull request, a second apart. The last one is its merge, or asks for changes. */
function fiveReports(number: number, isMerged: boolean): PullRequest[] {
  const identifier = `${number}`;
  const opened = pull({
    ...{ key: `github:github.com:5001:pull:${number}`, identifier, url: `https://github.com/acme/app/pull/${number}` },
    ...{ title: `Fixes BUG-${number}`, createdAt: time(1), isPublic: false, author: 'ann', defaultBranch: 'main' },
    ...{ headBranch: `change-${number}`, updatedAt: Date.parse(time(1)), phaseChangedAt: time(1), reviews: undefined },
  });
  const at = (second: number) => ({ updatedAt: Date.parse(time(second)) });
  const review = (second: number, state: Review['state']) => ({
    reviews: { [`${second}`]: { reviewer: 'ben', state, at: time(second) } },
  });
  const end = isMerged
    ? { state: 'merged' as const, mergedAt: time(5), closedAt: time(5) }
    : { ...review(5, 'changes'), labels: ['bug'] };
  return [
    opened,
    { ...opened, ...at(2), labels: ['bug'] },
    { ...opened, ...at(3), ...review(3, 'changes') },
    { ...opened, ...at(4), ...review(4, 'approved') },
    { ...opened, ...at(5), ...end },
  ];
}

const ORDERS = sampleOf(ordersOf([0, 1, 2, 3, 4]), 11);

it.each(WEBHOOKS)(
  `in each of ${2 * ORDERS.length} orders of five reports within seconds, with webhooks of the workspace: %s`,
  async (webhooks) => {
    const histories = [false, true].flatMap((isMerged, half) =>
      ORDERS.map((order, index) => {
        const reports = fiveReports(1 + half * ORDERS.length + index, isMerged);
        return { key: `BUG-${reports[0]?.identifier}`, isMerged, reports: order.map((each) => reports[each] as Item) };
      }),
    );
    for (let first = 0; first < histories.length; first += AT_ONCE) {
      const some = histories.slice(first, first + AT_ONCE);
      const keys = some.map(({ key }) => key);
      const board = await openBoard({ tasks: Object.fromEntries(keys.map((key) => [key, 'open'])), webhooks });
      for (let step = 0, now = 6; step < 5; step++, now += 2) {
        const earlier = [...board.reports];
        await board.deliver(
          some.map(({ reports }) => reports[step] as Item),
          now,
        );
        await board.sendOnly(keys, now + 1);
        await board.process(earlier, now + 1);
      }
      await settleAll(board, [], 20);
      const wrong = some.filter(({ key, isMerged }) => board.status(key) !== (isMerged ? 'completed' : 'in_progress'));
      expect(wrong.map(({ key }) => [key, board.status(key)])).toEqual([]);
      expect(await board.contests()).toBe(0);
    }
  },
);

interface Edit {
  readonly after: number;
  readonly status: string;
}

const FINAL: ReadonlySet<string> = new Set(['completed', 'merged', 'cancelled']);
const RANK: Readonly<Record<string, number>> = { open: 0, planned: 0, in_progress: 1, review: 2, completed: 3 };
/** Own moves of one task in a day. */
const MOST_MOVES = 12;
/** Seconds from an event to the edit after it: later than a contest would be. */
const EDIT_AFTER = 300;

/** The rules for statuses that people set, over a history whose events are heard of at once. */
class Simulated {
  status = 'open';
  #isOurs = false;
  #setAt = Date.parse(time(0));
  #previous: string | undefined;
  #epoch = 0;
  #moves = 0;

  edit(status: string, at: number): void {
    if (status === this.status) return;
    if (FINAL.has(this.status) && !FINAL.has(status)) this.#epoch = at;
    this.status = status;
    this.#isOurs = false;
    this.#setAt = at;
  }

  evaluate(reports: readonly Item[]): void {
    const facts = factsOf(reports, lastOf(reports));
    const wanted = wantedBy(facts, this.#epoch);
    if (wanted === undefined) return;
    const status = wanted === 'nothing' ? this.#previous : wanted.status;
    if (status === undefined || (wanted === 'nothing' && !this.#isOurs)) return;
    if (status === this.status) {
      this.#isOurs = true;
      return;
    }
    const isHeld = !this.#isOurs && !phasesOf(reports, facts).some((at) => at > this.#setAt);
    if (this.#moves >= MOST_MOVES || isHeld) return;
    if (wanted !== 'nothing' && !this.#mayLeave(wanted)) return;
    if (!this.#isOurs) this.#previous = this.status;
    this.status = status;
    this.#isOurs = true;
    this.#moves++;
  }

  #mayLeave({ status, mayGoBack = false, isReversal = false }: WantedStatus): boolean {
    if (FINAL.has(this.status)) return isReversal || (this.#isOurs && !FINAL.has(status));
    if (this.status === 'blocked') return FINAL.has(status);
    return this.#isOurs || mayGoBack || (RANK[status] as number) > (RANK[this.status] as number);
  }
}

function lastOf(reports: readonly Item[]): Item[] {
  return [...new Map(reports.map((item) => [item.key, item])).values()];
}

/** When the phases of the counted items began, epoch milliseconds. A reopening is known only to be after the closing. */
function phasesOf(reports: readonly Item[], { pulls: [first, second, third], issue, reviews }: Facts): number[] {
  const ofPull = (item: PullRequest | undefined, actor: number) => {
    if (item === undefined) return [];
    if (item.mergedAt != null) {
      const isReverted = actor === 0 && third?.reverts !== undefined && third.mergedAt != null;
      return [Date.parse(isReverted ? (third.mergedAt as string) : item.mergedAt)];
    }
    if (item.state === 'closed') return [Date.parse(item.closedAt ?? '')];
    return [progressOf(item, reviews[actor] ?? []).phaseAt];
  };
  const ofIssue = reports.filter((item): item is WorkItem => item.kind === 'work_item');
  const closing = ofIssue.findLast(({ state }) => state === 'done');
  const isCounted = closing !== undefined && (issue?.state === 'open' || !issue?.isDropped);
  const closedAt = issue?.state === 'open' ? (closing?.updatedAt ?? 0) : Date.parse(issue?.closedAt ?? '');
  return [...ofPull(first, 0), ...ofPull(second, 1), ...(isCounted ? [closedAt] : [])];
}

const EDITED = drawn(5_000, 400);

it(`keeps what people set until a newer phase, in ${EDITED} histories`, { timeout: 3_600_000 }, async () => {
  for (let first = 0; first < EDITED; first += AT_ONCE) {
    const numbers = Array.from({ length: Math.min(AT_ONCE, EDITED - first) }, (_, index) => first + index);
    const histories = numbers.map((number) => {
      const draw = numbersOf(number + 1_000_000);
      const history = historyOf(number, draw, false);
      const edits = [0, 1].map((): Edit => {
        const statuses = ['planned', 'blocked', 'in_progress', 'review', 'completed'];
        return { after: 1 + draw(EVENTS - 1), status: statuses[draw(statuses.length)] as string };
      });
      return { ...history, number, edits, simulated: new Simulated() };
    });
    const board = await openBoard({
      tasks: Object.fromEntries(histories.map(({ key }) => [key, 'open'])),
      workflow: { rules: [{ when: { workItem: ['completed'] }, set: { status: 'completed' } }] },
    });
    for (let event = 1; event <= EVENTS; event++) {
      const now = event * APART;
      await board.deliver(
        histories.flatMap(({ reports }) => reports[event - 1] ?? []),
        now + 1,
      );
      await board.send(now + 10);
      await board.send(now + 80);
      for (const { reports, simulated } of histories) simulated.evaluate(reports.slice(0, event));
      for (const { key, edits, reports, simulated } of histories) {
        const edit = edits.find(({ after }) => after === event);
        if (edit === undefined) continue;
        await board.person(key, now + EDIT_AFTER, edit.status);
        simulated.edit(edit.status, Date.parse(time(now + EDIT_AFTER)));
        simulated.evaluate(reports.slice(0, event));
      }
      await board.send(now + EDIT_AFTER + 5);
    }
    await board.send((EVENTS + 2) * APART);
    const wrong = histories.filter(({ key, simulated }) => board.status(key) !== simulated.status);
    expect(
      wrong.map(({ number, key, simulated }) => ({ seed: number, expected: simulated.status, is: board.status(key) })),
    ).toEqual([]);
  }
});
