import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { type ItemKey, pullRequestKey } from '../../src/model/item.ts';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import type { Fault } from '../../src/reference-service/http/pipeline.ts';
import { type Chance, createChance } from '../bench/quota/references/chance.ts';
import type { Fields } from '../bench/quota/references/trace.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { azureTracker } from '../support/vendors/provider-servers/azure-boards.ts';
import { bitbucketVendor } from '../support/vendors/provider-servers/bitbucket.ts';
import { genericTracker } from '../support/vendors/provider-servers/generic.ts';
import { githubTracker } from '../support/vendors/provider-servers/github.ts';
import { gitlabTracker } from '../support/vendors/provider-servers/gitlab.ts';
import { jiraTracker } from '../support/vendors/provider-servers/jira.ts';
import { linearTracker } from '../support/vendors/provider-servers/linear.ts';
import {
  type ExpectedRecord,
  type HeldIssue,
  type HeldPull,
  type Hook,
  type IssueFields,
  openProvider,
  type Provider,
  type Tracker,
  type Vendor,
} from '../support/vendors/provider-servers/provider.ts';
import { redmineTracker } from '../support/vendors/provider-servers/redmine.ts';

const SECRET = 'a webhook secret for tests only';
const MINUTE = 60_000;

const github = githubTracker(SECRET);
const gitlab = gitlabTracker(SECRET);
const bitbucket = bitbucketVendor(SECRET);
const TRACKERS = [
  ...[jiraTracker(SECRET), linearTracker(SECRET), azureTracker(SECRET), genericTracker(), redmineTracker(SECRET)],
  ...[github, gitlab],
];
const FORGES = [github, gitlab, bitbucket];

const RULES = {
  triage: [
    { when: { labels: 'wontfix' }, create: 'nothing' },
    { when: { labels: 'idea' }, create: 'idea', title: '{identifier}: {title}' },
    { when: { connection: 'redmine', type: 'wontfix' }, create: 'nothing' },
    { when: { connection: 'redmine', type: 'idea' }, create: 'idea', title: '{identifier}: {title}' },
    { create: 'bug' },
  ],
};

/** The process is killed when it comes to this for the nth time; `after`: it was carried out, and not yet answered. */
const KILLS: Readonly<Record<string, readonly number[]>> = {
  'POST bugs after': [2, 11],
  'POST bugs before': [6],
  'POST ideas after': [3],
  'POST work-items after': [14],
  'POST pull-request-records after': [20],
  'GET tasks after': [3],
  'commit before': [400, 1_900],
  'commit after': [900],
  'asked azure-boards': [25],
  'asked jira': [20],
};
/** Nobody is killed, but the connection is cut. */
const CUTS: Readonly<Record<string, readonly number[]>> = {
  'POST bugs after': [4],
  'POST bugs before': [15],
  'POST work-items after': [5],
  'POST work-items before': [25],
  'POST pull-request-records after': [9],
};

let world: World;
let providers: Map<string, Provider<Vendor | Tracker>>;
/** Starts the daemon again that was killed. */
let revive: (() => Promise<void>) | undefined;
let moments: Map<string, number> | undefined;
afterEach(async () => {
  await revive?.();
  revive = undefined;
  moments = undefined;
  await world.close();
  for (const provider of providers.values()) await provider.close();
});

/** @returns whether the connection is cut here */
function reach(moment: string): boolean {
  if (moments === undefined || revive !== undefined) return false;
  const count = (moments.get(moment) ?? 0) + 1;
  moments.set(moment, count);
  if (KILLS[moment]?.includes(count)) revive = world.kill();
  return CUTS[moment]?.includes(count) ?? false;
}

async function open(): Promise<void> {
  const fault = async (
    { method, url, headers }: { method: string; url: string; headers: Readonly<Record<string, unknown>> },
    edge: string,
  ): Promise<Fault | undefined> => {
    const kind = /(pull-request-records|work-items|tasks|bugs|ideas)(?:\?|$)/.exec(url)?.[1] ?? 'other';
    const isDaemon = String(headers['authorization']).includes('wsk_');
    return isDaemon && reach(`${method} ${kind} ${edge}`) ? 'cut' : undefined;
  };
  world = await createWorld({
    random: { ...systemRandom(), float: createChance(3).float },
    faults: { before: (request) => fault(request, 'before'), after: (request) => fault(request, 'after') },
    steps: { reached: (kind, edge) => void reach(`${kind} ${edge}`) },
  });
  await world.settled();
  const vendors = [...new Set<Vendor | Tracker>([...TRACKERS, ...FORGES])];
  const { clock } = world;
  const opened = vendors.map((vendor) =>
    openProvider(vendor, { clock, asked: () => void reach(`asked ${vendor.id}`) }),
  );
  providers = new Map((await Promise.all(opened)).map((provider) => [provider.vendor.id, provider]));
}

/** The daemon begins to follow them all, from nothing: what people made before is what it reads first. */
async function connect(): Promise<void> {
  const connections = [...providers].map(([id, { vendor, url }]) => {
    const webhookSecrets = 'secret' in vendor ? vendor.secret : SECRET;
    return [id, { connector: id, ...vendor.options(url), webhookSecrets, poll: '10m', sweep: '1h' }];
  });
  const meanwhile = (data: string) => {
    for (const file of readdirSync(data).filter((name) => name.startsWith('worksync.db'))) rmSync(join(data, file));
  };
  await world.restart({ config: { connections: Object.fromEntries(connections), rules: RULES }, meanwhile });
  moments = new Map();
}

interface Step {
  readonly at: number;
  readonly do: () => Promise<void> | void;
}

/** Goes to each moment in turn, the daemon at work in between. A step may add others. */
async function play(steps: Step[]): Promise<void> {
  for (;;) {
    const step = steps.sort((a, b) => a.at - b.at).shift();
    if (step === undefined) return;
    await pass(step.at - world.clock.now());
    await step.do();
  }
}

/** Starts a killed daemon again at the next look. */
async function pass(ms: number): Promise<void> {
  let isOver = ms <= 0;
  if (!isOver)
    world.clock.after(ms, () => {
      isOver = true;
    });
  while (!isOver || revive !== undefined) {
    await world.until(() => isOver || revive !== undefined, 2 * ms + MINUTE);
    const start = revive;
    await start?.();
    if (start !== undefined) revive = undefined;
  }
}

/** When a webhook arrives, milliseconds after its event: soon, late enough to be overtaken, twice, or never. */
function arrivals(chance: Chance): number[] {
  if (chance.happens(0.15)) return [];
  const first = chance.happens(0.8) ? chance.between(200, 2_000) : chance.between(5_000, 15 * MINUTE);
  return chance.happens(0.15) ? [first, first + chance.lognormal(3 * MINUTE, 1)] : [first];
}

interface Reason {
  readonly rule: string;
  readonly place: string;
  readonly text: string;
  readonly intent: 'closes' | 'mentions';
  readonly via?: ItemKey;
}

/** The expected end of an item. */
interface Expected {
  readonly key: ItemKey;
  readonly connection: string;
  readonly url: string;
  readonly gone: boolean;
  /** By the task, which is known by its source, or by its key where people made it. */
  readonly links: Readonly<Record<string, Reason>>;
  /** A second name in the item, and its expected end. */
  readonly others: readonly string[];
  readonly triage: RegExp | null;
  readonly task?: { readonly kind: string; readonly title: string };
}

type Change = Partial<IssueFields> | 'deleted';

interface Life {
  /** Minutes after the beginning, and what happens then. */
  readonly course: readonly (readonly [number, Change])[];
  readonly becomes: 'bug' | 'idea' | 'hand' | 'nothing';
  readonly triage: RegExp;
}

const BECAME = /^became (BUG|IDEA)-\d+/;
const BUG = 1;
const IDEA = 2;
const REFUSED = 3;
const BY_HAND = 4;
const DELETED = 5;
const LATE = 6;
const FINISHED = 7;

/** By their numbers, the same in each tracker: between two changes polls come in any case. */
const LIVES: Readonly<Record<number, Life>> = {
  [BUG]: {
    course: [
      [0, {}],
      [30, { title: 'Edited', description: 'More is known.' }],
      [75, { state: 'done' }],
      [110, { state: 'open' }],
    ],
    ...{ becomes: 'bug', triage: BECAME },
  },
  [IDEA]: {
    course: [
      [0, { labels: ['idea'] }],
      [40, { labels: ['idea', 'wontfix'] }],
    ],
    ...{ becomes: 'idea', triage: BECAME },
  },
  [REFUSED]: {
    course: [
      [0, { labels: ['wontfix'] }],
      [45, { description: 'Still not.' }],
    ],
    ...{ becomes: 'nothing', triage: /^rule [13] says that no task is created$/ },
  },
  [BY_HAND]: {
    course: [
      [0, {}],
      [50, { description: 'It is there already.' }],
    ],
    ...{ becomes: 'hand', triage: /^it has a task already$/ },
  },
  [DELETED]: {
    course: [
      [0, {}],
      [60, 'deleted'],
    ],
    ...{ becomes: 'bug', triage: BECAME },
  },
  [LATE]: {
    course: [
      [0, { labels: ['wontfix'] }],
      [50, { labels: ['needed'] }],
    ],
    ...{ becomes: 'bug', triage: BECAME },
  },
  [FINISHED]: {
    course: [
      [0, { state: 'done' }],
      [35, { description: 'It was.' }],
    ],
    ...{ becomes: 'nothing', triage: /status does not fit/ },
  },
};

/** The events of the day, and their expected ends. */
interface Story {
  readonly steps: Step[];
  readonly expected: (() => Expected)[];
}

interface Plot extends Story {
  readonly chance: Chance;
  /** The keys of tasks that people created, each used once. */
  readonly keys: string[];
  readonly day: number;
}

let deliveries = 0;

/** Sends what a vendor tells, as often as it does; half of what nobody answers is sent once more. */
function tell({ steps, chance }: Plot, connection: string, hook: (delivery: string) => Hook | undefined): void {
  const delivery = `delivery-${++deliveries}`;
  const send = (delay: number) => steps.push({ at: world.clock.now() + delay, do: post });
  const post = async () => {
    const request = hook(delivery);
    if (!request) return;
    const status = await world.post(connection, request);
    expect([0, 200, 202]).toContain(status);
    if (status === 0 && chance.happens(0.5)) send(chance.between(MINUTE, 5 * MINUTE));
  };
  for (const delay of arrivals(chance)) send(delay);
}

function addIssue(plot: Plot, tracker: Tracker, number: number): void {
  const { steps, chance, day, keys, expected } = plot;
  const { course, becomes, triage } = LIVES[number] as Life;
  const provider = providers.get(tracker.id) as Provider<Tracker>;
  const hand = becomes === 'hand' ? (keys.shift() as string) : undefined;
  const title = hand === undefined ? `Item ${number}` : `As ${hand}`;
  const start = day + chance.between(2, 40) * MINUTE;
  for (const [minutes, change] of course) {
    const isFirst = minutes === 0;
    steps.push({
      at: start + minutes * MINUTE,
      do() {
        const whole = change === 'deleted' ? change : { ...(isFirst && { title }), ...change };
        const issue = provider.change(number, whole);
        const event = isFirst ? 'created' : change === 'deleted' ? 'deleted' : 'updated';
        tell(plot, tracker.id, (delivery) => tracker.issueHook(issue, { event, delivery, sentAt: world.clock.now() }));
      },
    });
  }
  expected.push(() => {
    const issue = provider.issues.get(number) as HeldIssue;
    const key = tracker.itemKey(issue);
    const isMade = becomes === 'bug' || becomes === 'idea';
    const byTriage = { rule: 'triage', place: 'source', text: key, intent: 'mentions' } as const;
    const byTitle = { rule: 'task-key', place: 'title', text: hand as string, intent: 'mentions' } as const;
    return {
      ...{ key, connection: tracker.id, url: tracker.page(issue), gone: issue.isDeleted, others: [], triage },
      links: isMade ? { [key]: byTriage } : hand === undefined ? {} : { [hand]: byTitle },
      ...(isMade && {
        task: { kind: becomes, title: becomes === 'bug' ? title : expect.stringContaining(`: ${title}`) },
      }),
    };
  });
}

interface Texts {
  readonly title?: string;
  readonly description?: string;
}

interface Naming {
  /** Its first text, and its later one. */
  readonly texts: Texts;
  readonly later?: Texts;
  readonly links: Readonly<Record<string, Reason>>;
  readonly others?: readonly string[];
  /** It never changes: what becomes of what it names must find it. */
  readonly isLeftAlone?: boolean;
}

const PLAIN: Fields = {
  ...{ title: 'A change', description: 'Words.', state: 'open', draft: false, head: 'abc' },
  ...{ reviewers: [], labels: [], assignees: [] },
};

function addPull(
  plot: Plot,
  vendor: Vendor,
  number: number,
  { texts, later = texts, links, others = [], isLeftAlone = false }: Naming,
): void {
  const { steps, chance, day, expected } = plot;
  const provider = providers.get(vendor.id) as Provider;
  const start = day + chance.between(1, 60) * MINUTE;
  const course = [
    { minutes: 0, event: 'opened', fields: { ...PLAIN, ...texts } },
    { minutes: 30, event: 'edited', fields: { ...PLAIN, ...later, reviewers: ['ben'] } },
    { minutes: 90, event: 'closed', fields: { ...PLAIN, ...later, reviewers: ['ben'], state: 'merged' as const } },
  ];
  for (const { minutes, event, fields } of course.slice(0, isLeftAlone ? 1 : course.length)) {
    const at = start + minutes * MINUTE;
    steps.push({
      at,
      do() {
        const line = {
          at: (at - day) / 1_000,
          connection: vendor.id,
          item: `app/${number}`,
          updated: at,
          event,
          fields,
        };
        const pull = provider.happen(line, day);
        tell(plot, vendor.id, (delivery) => vendor.hook(pull, event, delivery));
      },
    });
  }
  expected.push(() => {
    const { repoId } = vendor.record(provider.pulls.get(number) as HeldPull);
    const key = pullRequestKey(vendor.id, HOSTS[vendor.id] as string, String(repoId), String(number));
    return {
      ...{ key, connection: vendor.id },
      ...{ url: PULLS[vendor.id] + String(number), gone: false, links, triage: null },
      // The branch looks like a key too.
      others: [`branch-${number} unknown`, ...others],
    };
  });
}

const HOSTS: Readonly<Record<string, string>> = {
  github: 'github.com',
  gitlab: 'gitlab.com',
  bitbucket: 'bitbucket.org',
};
const PULLS: Readonly<Record<string, string>> = {
  github: 'https://github.com/acme/app/pull/',
  gitlab: 'https://gitlab.com/acme/app/-/merge_requests/',
  bitbucket: 'https://bitbucket.org/acme/app/pull-requests/',
};

/** The pull requests of one vendor, each of which names something in another way. */
function addPulls(plot: Plot, vendor: Vendor, first: number): void {
  const { keys } = plot;
  const next = () => keys.shift() as string;
  const [own, both, trailed] = [next(), next(), next()];
  /** An item of one of the trackers, the next one with each vendor. */
  const named = (step: number, number: number) => {
    const tracker = TRACKERS[(first + step) % TRACKERS.length] as Tracker;
    const issue = { number } as HeldIssue;
    const text = tracker.calledAt(vendor.id, issue);
    // Redmine has no words that close, unless somebody sets some.
    const closes = tracker.id === 'redmine' ? ('mentions' as const) : ('closes' as const);
    return { text, key: tracker.itemKey(issue), page: tracker.page(issue), rule: ruleOf(text), closes };
  };
  const [bug, refused, idea, deleted, late] = [
    named(0, BUG),
    named(1, REFUSED),
    named(2, IDEA),
    named(3, DELETED),
    named(4, LATE),
  ] as const;
  const inDescription = { place: 'description', intent: 'mentions' } as const;
  const pulls: readonly Naming[] = [
    {
      texts: { title: `${own}: the door` },
      links: { [own]: { rule: 'task-key', place: 'title', text: own, intent: 'mentions' } },
    },
    {
      texts: { description: `It fixes ${bug.text}.` },
      links: { [bug.key]: { rule: bug.rule, place: 'description', text: bug.text, intent: bug.closes, via: bug.key } },
    },
    { texts: { description: `See ${refused.text}.` }, links: {}, others: [`${refused.text} taskless`] },
    { texts: { title: `Part of ${idea.text}` }, later: { title: 'Of no part' }, links: {} },
    {
      texts: { description: `In UTF-8, says RFC-9110; not \`${own}\`, and no XBUG-1.` },
      ...{ links: {}, others: ['UTF-8 unknown', 'RFC-9110 unknown', 'XBUG-1 unknown'] },
    },
    {
      texts: { title: `${both}, another`, description: `Of ${deleted.text}.` },
      links: {
        [both]: { rule: 'task-key', place: 'title', text: both, intent: 'mentions' },
        [deleted.key]: { ...inDescription, rule: deleted.rule, text: deleted.text, via: deleted.key },
      },
    },
    {
      texts: { description: `See ${late.page}\n\nTask: ${trailed.toLowerCase()}` },
      links: {
        [trailed]: { rule: 'trailer', place: 'trailer', text: trailed.toLowerCase(), intent: 'mentions' },
        [late.key]: { ...inDescription, rule: 'item-url', text: late.page, via: late.key },
      },
      isLeftAlone: true,
    },
  ];
  for (const [at, naming] of pulls.entries()) addPull(plot, vendor, 101 + at, naming);
}

function ruleOf(text: string): string {
  if (text.includes('://')) return 'item-url';
  return text.includes('#') ? 'item-number' : 'item-key';
}

it('all trackers and git providers in one workspace: each task and each link once, and explained, whatever is lost, late, repeated or killed', async () => {
  await open();
  const keys: string[] = [];
  for (let count = 0; count < TRACKERS.length + 3 * FORGES.length; count++)
    keys.push((await world.bug(`By hand ${count}`)).key);
  const byHand = [...keys];
  await connect();
  const plot: Plot = { steps: [], expected: [], chance: createChance(11), keys, day: world.clock.now() };
  for (const tracker of TRACKERS) for (const number of Object.keys(LIVES)) addIssue(plot, tracker, Number(number));
  for (const [at, vendor] of FORGES.entries()) addPulls(plot, vendor, 2 * at);
  await play(plot.steps);
  const happened = moments as Map<string, number>;
  moments = undefined;
  // Long enough for polls, and for the sweeps that find what was deleted.
  await pass(100 * MINUTE);
  await world.settled();
  const expected = plot.expected.map((tell) => tell());

  const planned = [...Object.entries(KILLS), ...Object.entries(CUTS)];
  expect(planned.filter(([moment, counts]) => (happened.get(moment) ?? 0) < Math.max(...counts))).toEqual([]);
  expect([...providers.values()].flatMap(({ unanswered }) => unanswered)).toEqual([]);

  // Tasks: those of people, and one for each item that should have one.
  const tasks = await world.tasks();
  const nameOf = new Map(tasks.map(({ taskId, source, key }) => [taskId, source.includes(':issue:') ? source : key]));
  const made = expected.filter(({ task }) => task !== undefined);
  expect([...nameOf.values()].toSorted()).toEqual([...byHand, ...made.map(({ key }) => key)].toSorted());
  for (const { key, task } of made) expect(tasks.find(({ source }) => source === key)).toMatchObject(task as object);

  // Links: those of the items, and no others.
  const held: Record<string, unknown> = {};
  for (const { taskId } of tasks) {
    const workItems = await world.links(taskId);
    held[nameOf.get(taskId) as string] = workItems.map(({ url, externalId }) => `${url} ${externalId}`).sort();
  }
  const wanted = Object.fromEntries([...nameOf.values()].map((name) => [name, [] as string[]]));
  for (const { key, url, links } of expected)
    for (const task of Object.keys(links)) wanted[task]?.push(`${url} worksync:${key}`);
  for (const links of Object.values(wanted)) links.sort();
  expect(held).toEqual(wanted);

  // Records: one for each pull request.
  const records = FORGES.flatMap((vendor) =>
    [...(providers.get(vendor.id) as Provider).pulls.values()].map((pull) => vendor.record(pull)),
  );
  const byName = (all: readonly ExpectedRecord[]) =>
    Object.fromEntries(all.map((record) => [`${record.provider} ${record.identifier}`, record]));
  const found = (await world.records()) as unknown as ExpectedRecord[];
  expect(found).toHaveLength(records.length);
  expect(byName(found)).toMatchObject(byName(records));

  // And why.
  for (const each of expected) expect(await explained(each.key, nameOf)).toEqual(asExplained(each));
  const { deliveries: told, changes } = await world.partition().status();
  expect(told.quarantined).toBe(0);
  expect(changes.byState).toEqual({ pending: 0, sending: 0, unknown: 0, held: 0 });
});

/** The answer to `worksync links explain`, as far as it does not depend on the course of things. */
async function explained(target: ItemKey, nameOf: ReadonlyMap<string, string>) {
  const question = world.ask('explain', { target });
  const { items } = await question;
  const standing = items.flatMap(({ links }) => links);
  return {
    items: items.map(({ item, connection, url, gone, triage }) => ({ item, connection, url, gone, triage })),
    links: Object.fromEntries(
      standing.map(({ taskId, state, reason, delivery, request, error }) => {
        const { delivery: _, namedAt: __, strength: ___, ...why } = reason ?? {};
        const by = { delivery: delivery?.connection ?? null, request: request?.action ?? null };
        return [nameOf.get(taskId) ?? taskId, { state, reason: why, ...by, error }];
      }),
    ),
    count: standing.length,
    others: items.flatMap(({ others }) => others.map(({ text, outcome }) => `${text} ${outcome}`)),
  };
}

function asExplained({ key, connection, url, gone, triage, links, others }: Expected) {
  return {
    items: [{ item: key, connection, url, gone, triage: triage && expect.stringMatching(triage) }],
    links: Object.fromEntries(
      Object.entries(links).map(([task, reason]) => {
        const delivery = reason.rule === 'triage' ? null : connection;
        return [task, { state: 'linked', reason, delivery, request: 'add-link', error: null }];
      }),
    ),
    count: Object.keys(links).length,
    others,
  };
}
