import { type Behaviour, drawBehaviour, HELD_OUT, USUAL } from './behaviour.ts';
import { type Chance, createChance } from './chance.ts';
import { eventsOf, type Fields, type Line } from './trace.ts';

const HOUR = 3_600;
const MINUTE = 60;
const LENGTH = 24 * HOUR;
const ACTIVITY = [2, 2, 2, 2, 3, 6, 15, 35, 60, 80, 100, 90, 60, 70, 95, 100, 90, 70, 45, 30, 20, 12, 7, 4];
/** Working hours: the load is measured in these. */
const [OPENS, CLOSES] = [8 * HOUR, 18 * HOUR];
/** Events in working hours that the workspace's quota could just take one by one: 40 long windows of 200. */
const FULL_LOAD = 40 * 200;
const POLL_EVERY = 5 * MINUTE;
const POLL_OVERLAP = 10 * MINUTE;
const CONNECTION = 'github';

/**
 * A day of an organisation's pull requests: everything that is delivered of them, which are webhooks, replays and polls.
 * People's acts are dated in activity time, which runs fast at 10-11 and 14-16 h and slowly at night; bursts, bots and
 * machines are in real seconds.
 *
 * @param load events in working hours per request that the quota allows there: 0.7, 1.2, 3
 */
export function generateDay(seed: number, load: number, behaviour: Behaviour = USUAL): readonly Line[] {
  const chance = createChance(seed);
  const { dependencyEvery } = behaviour;
  const lives: Line[][] = [];
  const events = { inWork: 0 };
  for (let number = 1; events.inWork < load * FULL_LOAD; number++) {
    const isDependency = dependencyEvery > 0 && number % dependencyEvery === 0;
    const life = (isDependency ? dependencyLife : personLife)({ chance, behaviour, number });
    lives.push(life);
    events.inWork += eventsOf(life).filter(({ at }) => at >= OPENS && at < CLOSES).length;
  }
  const webhooks = lives.flat().sort(byTime);
  return [...webhooks, ...replays(chance, webhooks), ...polls(webhooks)].sort(byTime);
}

function byTime(left: Line, right: Line): number {
  return left.at - right.at;
}

/** Records what happens to one pull request. Acts may be told in any order: they are sorted before they are applied. */
interface Act {
  readonly at: number;
  readonly event: string;
  change(fields: Fields): Partial<Fields>;
}

interface Life {
  readonly chance: Chance;
  readonly behaviour: Behaviour;
  readonly number: number;
}

function personLife(life: Life): Line[] {
  const { chance, behaviour } = life;
  const opened = chance.between(0, 24);
  const at = realTime(opened);
  const acts: Act[] = [...botLabels(life, at)];
  const isDraft = chance.happens(behaviour.drafts);
  const ready = isDraft ? opened + hours(chance.lognormal(60, 0.8)) : opened;
  if (isDraft) acts.push({ at: realTime(ready), event: 'ready_for_review', change: () => ({ draft: false }) });
  acts.push(...reviewers(life, realTime(ready)), ...edits(life, opened), ...labelStorm(life, opened));
  const pushes = pushTimes(chance, opened);
  for (const push of pushes) acts.push(...pushed(life, push));
  const reviews = reviewTimes(life, ready);
  for (const review of reviews) acts.push(...reviewed(chance, realTime(review)));
  const last = Math.max(opened, ready, ...reviews, ...pushes.map(activityTime));
  acts.push(...closed(life, realTime(last + hours(chance.lognormal(20, 0.8))), chance.happens(0.85)));
  return tell(life, at, acts, isDraft);
}

/** A bot opens many at the same moment, and most of them are merged by machine. */
function dependencyLife(life: Life): Line[] {
  const { chance, number, behaviour } = life;
  const { dependencyEvery, dependencyHours } = behaviour;
  const place = Math.floor(number / dependencyEvery);
  const hour = dependencyHours[place % dependencyHours.length] as number;
  const at = hour * HOUR + Math.floor(place / dependencyHours.length) * chance.between(1, 4);
  const acts = [...botLabels(life, at), ...pushed(life, at)];
  if (chance.happens(0.7)) acts.push(...closed(life, at + chance.lognormal(10 * MINUTE, 0.3), true));
  return tell(life, at, acts, false);
}

function botLabels({ chance, behaviour }: Life, at: number): Act[] {
  return times(chance.whole(...behaviour.openingLabels), (each) =>
    addLabel(at + chance.between(0.5, 10), `area-${each}`),
  );
}

/** Chosen one after the other in a dialogue. */
function reviewers({ chance, behaviour }: Life, ready: number): Act[] {
  const first = ready + chance.between(2, MINUTE);
  return burst({ chance, behaviour }, first, chance.whole(...behaviour.reviewers)).map((at, each) => ({
    at,
    event: 'review_requested',
    change: ({ reviewers: before }) => ({ reviewers: [...before, `reviewer-${each}`] }),
  }));
}

function edits({ chance, behaviour }: Life, opened: number): Act[] {
  if (!chance.happens(behaviour.edited)) return [];
  return times(chance.whole(1, 3), (each) => ({
    at: realTime(opened + hours(chance.lognormal(15, 1))),
    event: 'edited',
    change: () => (each % 2 === 0 ? { title: `Title ${each + 2}` } : { description: `Description ${each + 2}` }),
  }));
}

function labelStorm({ chance, behaviour: { storms } }: Life, opened: number): Act[] {
  if (!chance.happens(storms.part)) return [];
  const start = realTime(opened + hours(chance.lognormal(40, 1)));
  const length = chance.between(...storms.seconds);
  return times(chance.whole(...storms.changes), () => {
    const label = `storm-${chance.whole(0, 9)}`;
    const at = start + chance.between(0, length);
    return chance.happens(0.7) ? addLabel(at, label) : removeLabel(at, label);
  });
}

function pushTimes(chance: Chance, opened: number): number[] {
  const all: number[] = [];
  let at = realTime(opened);
  for (let each = 0; each < 1 + Math.min(14, chance.geometric(3)); each++) {
    const isFixUp = chance.happens(0.3);
    at = isFixUp ? at + chance.between(20, 90) : realTime(activityTime(at) + hours(chance.lognormal(25, 1.1)));
    all.push(at);
  }
  return all;
}

/** Some of the pushes are tested: the state of that is kept in a label. */
function pushed({ chance, behaviour }: Life, at: number): Act[] {
  const push: Act = { at, event: 'synchronize', change: () => ({ head: String(at) }) };
  if (!chance.happens(behaviour.tested)) return [push];
  const started = at + chance.between(1, 3);
  const done = started + chance.lognormal(behaviour.testMinutes * MINUTE, 0.4);
  return [
    push,
    removeLabel(started, 'ci:passed'),
    addLabel(started + chance.between(0.6, 2), 'ci:running'),
    removeLabel(done, 'ci:running'),
    addLabel(done + chance.between(0.6, 2), 'ci:passed'),
  ];
}

function reviewTimes({ chance, behaviour }: Life, ready: number): number[] {
  return times(chance.whole(...behaviour.reviews), () => ready + hours(chance.lognormal(60, 0.9)));
}

function reviewed(chance: Chance, at: number): Act[] {
  const acts: Act[] = [{ at, event: 'submitted', change: () => ({}) }];
  if (chance.happens(0.4)) acts.push(addLabel(at + chance.between(0.6, 2), `review-${chance.whole(1, 3)}`));
  if (chance.happens(0.3)) {
    const name = `person-${chance.whole(1, 20)}`;
    const change: Act['change'] = ({ assignees }) => ({ assignees: [...new Set([...assignees, name])] });
    acts.push({ at: at + chance.between(1.2, 4), event: 'assigned', change });
  }
  return acts;
}

function closed({ chance, behaviour }: Omit<Life, 'number'>, at: number, isMerged: boolean): Act[] {
  const close: Act = { at, event: 'closed', change: () => ({ state: isMerged ? 'merged' : 'closed' }) };
  const cleared = burst({ chance, behaviour }, at + chance.between(0.6, 2), chance.whole(...behaviour.closingLabels));
  const removals = cleared.map((moment) => removeOneLabel(moment));
  return [close, ...removals, ...(isMerged ? released({ chance, behaviour }, at) : [])];
}

/** A merged pull request is released with the next release, or never. */
function released({ chance, behaviour: { releases } }: Omit<Life, 'number'>, at: number): Act[] {
  const next = releases.find(({ hour }) => at < hour * HOUR);
  if (next === undefined) return [];
  const moment = next.hour * HOUR + chance.between(0, next.within);
  return chance.happens(next.part) ? [addLabel(moment, 'released')] : [];
}

function addLabel(at: number, label: string): Act {
  return { at, event: 'labeled', change: ({ labels }) => ({ labels: [...new Set([...labels, label])].sort() }) };
}

function removeLabel(at: number, label: string): Act {
  return { at, event: 'unlabeled', change: ({ labels }) => ({ labels: labels.filter((each) => each !== label) }) };
}

function removeOneLabel(at: number): Act {
  return { at, event: 'unlabeled', change: ({ labels }) => ({ labels: labels.slice(1) }) };
}

function burst({ chance, behaviour }: Omit<Life, 'number'>, first: number, count: number): number[] {
  const moments: number[] = [];
  for (let at = first; moments.length < count; at += chance.between(...behaviour.clicks)) moments.push(at);
  return moments;
}

/** An open pull request without activity at one o'clock is marked; that too is an act. */
function staleMark(opened: number): Act[] {
  return opened < HOUR ? [addLabel(HOUR + (opened % 40), 'stale')] : [];
}

/** The deliveries of one pull request. What would lie beyond the day is left out. */
function tell(life: Life, at: number, acts: readonly Act[], draft: boolean): Line[] {
  const item = `${pickRepository(life)}/${life.number}`;
  const none = { reviewers: [], labels: [], assignees: [] };
  let fields: Fields = { title: 'Title 1', description: 'Description 1', state: 'open', draft, ...none, head: '0' };
  const lines: Line[] = [lineOf(at, 'opened', item, fields)];
  const story = [...acts, ...staleMark(at)].sort((left, right) => left.at - right.at);
  for (const act of story) {
    if (act.at >= LENGTH) break;
    const change = act.change(fields);
    const next = { ...fields, ...change };
    // Providers report no change that is none; a review is told though it changes no field.
    const isTold = act.event === 'submitted' || JSON.stringify(next) !== JSON.stringify(fields);
    if (isTold) lines.push(lineOf(act.at, act.event, item, next));
    fields = next;
  }
  return lines;
}

function lineOf(at: number, event: string, item: string, fields: Fields): Line {
  return { at, connection: CONNECTION, event, item, fields, updated: at };
}

/** Few repositories have most of the work: weights 1 / rank^concentration. */
function pickRepository({ chance, behaviour: { repositories, concentration } }: Life): number {
  let left = chance.float() * weightOf(repositories, concentration);
  for (let rank = 1; rank < repositories; rank++) {
    left -= 1 / rank ** concentration;
    if (left < 0) return rank - 1;
  }
  return repositories - 1;
}

const weights = new Map<string, number>();

function weightOf(repositories: number, concentration: number): number {
  const name = `${repositories} ${concentration}`;
  const known =
    weights.get(name) ?? times(repositories, (rank) => 1 / (rank + 1) ** concentration).reduce((a, b) => a + b);
  weights.set(name, known);
  return known;
}

/** 3 % of the webhooks are delivered once more, minutes later. */
function replays(chance: Chance, webhooks: readonly Line[]): Line[] {
  return webhooks
    .filter(() => chance.happens(0.03))
    .map((line) => ({ ...line, event: 'replay', at: line.at + chance.lognormal(5 * MINUTE, 1) }))
    .filter(({ at }) => at < LENGTH);
}

/** Each poll brings every item that changed within its overlap, as it is now. */
function polls(webhooks: readonly Line[]): Line[] {
  const all: Line[] = [];
  let first = 0;
  let end = 0;
  for (let at = POLL_EVERY; at < LENGTH; at += POLL_EVERY) {
    while ((webhooks[first]?.at ?? LENGTH) < at - POLL_OVERLAP) first++;
    while ((webhooks[end]?.at ?? LENGTH) <= at) end++;
    const latest = new Map(webhooks.slice(first, end).map((line) => [line.item, line]));
    for (const line of latest.values()) all.push({ ...line, at, event: 'poll' });
  }
  return all;
}

const TOTAL = ACTIVITY.reduce((sum, weight) => sum + weight, 0);
/** Activity hours that have passed at the start of each hour; 24 in all. */
const PASSED = ACTIVITY.map((_, hour) => (24 * ACTIVITY.slice(0, hour).reduce((sum, w) => sum + w, 0)) / TOTAL);

/** From activity hours to seconds of the day; what lies beyond the day comes after it. */
function realTime(activity: number): number {
  if (activity >= 24) return LENGTH + (activity - 24) * HOUR;
  const hour = PASSED.findLastIndex((passed) => passed <= activity);
  const perHour = (24 * (ACTIVITY[hour] as number)) / TOTAL;
  return (hour + (activity - (PASSED[hour] as number)) / perHour) * HOUR;
}

function activityTime(at: number): number {
  if (at >= LENGTH) return 24 + (at - LENGTH) / HOUR;
  const hour = Math.floor(at / HOUR);
  return (PASSED[hour] as number) + ((24 * (ACTIVITY[hour] as number)) / TOTAL) * (at / HOUR - hour);
}

function hours(minutes: number): number {
  return minutes / 60;
}

function times<Value>(count: number, make: (each: number) => Value): Value[] {
  return Array.from({ length: count }, (_, each) => make(each));
}

/**
 * The days of a quota bench. Policies are tuned on one half, and reported on the other: nobody looks at the
 * second before the policy is settled, or the report would say how well it fits known days. `--tuning` plays the first.
 */
export interface Split {
  /** For all that is drawn beside days: durations, kills, other users. */
  readonly seeds: readonly number[];
  readonly behaviours: readonly Behaviour[];
}

export const TUNING: Split = {
  seeds: [1, 2, 3, 4, 5],
  behaviours: [USUAL, ...[2, 3, 4, 5].map(drawBehaviour)],
};

export const REPORT: Split = {
  seeds: [101, 102, 103, 104, 105],
  behaviours: [drawBehaviour(101), HELD_OUT.releases, HELD_OUT.people, HELD_OUT.monorepo, HELD_OUT.teams],
};

/** One day for each seed, each of another organisation. @param load see `generateDay` */
export function daysOf({ seeds, behaviours }: Split, load: number): readonly (readonly Line[])[] {
  return seeds.map((seed, index) => generateDay(seed, load, behaviours[index]));
}
