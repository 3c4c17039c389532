import { sql } from 'kysely';
import { chanceOf } from '../bench/quota/references/chance.ts';
import type { Hook } from '../support/vendors/provider-servers/provider.ts';
import { type Act, MINUTE, MOST_NAMED, NEVER, NUMBER, PROMPT, SECOND, statusOf, type Ways } from './calm-ways.ts';
import { WORKSPACE } from './network.ts';
import { createOperator, leftToDo, lookAtWorkspace } from './operator.ts';
import type { Forge, Plan, TrackerName } from './plan.ts';
import type { Replica, Site } from './site.ts';

export async function startsAgain(site: Site, { phase, seen, change }: Ways): Promise<void> {
  const replica = onlyOne(site);
  for (const end of ['stop', 'bury'] as const) {
    // A poll may tell what no webhook said.
    await phase(`it starts again after ${end}`, 1, 40, async () => {
      await site[end](replica);
      await site.during(site.start(replica));
      await site.pass(3 * MINUTE);
    });
    await change(PROMPT, { labels: ['api'] });
    await seen(`a webhook after ${end}`, 2 * MINUTE);
  }
  // Where one request goes at a time, the next one waits until nobody expects the answer any more.
  if (site.settings().concurrency === 1) return;
  // After a kill few requests are on their way at once, and one that gets no answer holds up no other.
  await phase('a request gets no answer', 12, 40, async () => {
    const words = `"identifier":"${SILENT}"`;
    site.weather.turn(WORKSPACE, 'silent', 1, site.clock.elapsed() + 5 * MINUTE, words);
    await change(PROMPT, { labels: ['silent'] }, SILENT);
    // It is due with the other one, and waits in line when that leaves.
    await change(PROMPT, { labels: ['beside'] });
    await seen('a change while another one gets no answer', 20 * SECOND);
    site.weather.clear();
    await seen('what got no answer', 4 * MINUTE, SILENT);
    // A link may wait for the list of tasks.
    await site.pass(3 * MINUTE);
  });
}

/** No plan has so large a number. */
const SILENT = 94;

/** Wherever it is in what it does. */
export async function endsAmid(site: Site, plan: Plan, ways: Ways): Promise<void> {
  await stopsAmidChanges(site, plan, ways);
  await diesAmidChanges(site, plan, ways);
  await endsAmidOtherWork(site, plan, ways);
}

/** Commits and requests, before and after, that a change of a pull request and its link takes at most. */
const STEPS = 24;

async function stopsAmidChanges(site: Site, { seed }: Plan, { phase, seen, change }: Ways): Promise<void> {
  for (const step of [1 + ((5 * seed + 1) % STEPS), 1 + ((11 * seed + 7) % STEPS)])
    await phase(`it stops at step ${step}`, 6, 40, async () => {
      await stopsAt(site, step, async () => {
        void site.partition()?.polls.pollNow();
        await change(PROMPT, { names: step % 2, labels: [`stop ${step}`] });
      });
      await seen(`a change at whose step ${step} the process stopped`, 4 * MINUTE);
    });
}

async function diesAmidChanges(site: Site, { seed }: Plan, { phase, seen, change }: Ways): Promise<void> {
  for (const step of [1 + (seed % STEPS), 1 + ((7 * seed + 3) % STEPS)])
    await phase(`it dies at step ${step}`, 6, 40, async () => {
      await diesAt(site, step, () => change(PROMPT, { names: step % 2, labels: [`step ${step}`] }));
      await seen(`a change at whose step ${step} the process died`, 4 * MINUTE);
    });
}

/** Work of a process other than sending changes, and the number of its steps to try. */
interface OtherWork {
  readonly name: string;
  readonly steps: number;
  begin(): Promise<unknown>;
}

async function endsAmidOtherWork(site: Site, plan: Plan, { phase, promised, change }: Ways): Promise<void> {
  const chance = chanceOf(plan.seed, 'stops');
  for (const { name, steps, begin } of otherWork(site, plan, change)) {
    const step = chance.whole(1, steps);
    const ends = chance.happens(0.6) ? stopsAt : diesAt;
    await phase(`it ends at step ${step} of ${name}`, 60, 60, async () => {
      await ends(site, step, async () => {
        // The rejection only says that the process has ended.
        begin().catch(() => undefined);
      });
      site.weather.clear();
      await site.pass(MINUTE);
    });
  }
  // A large backfill takes its time.
  await promised('the end of what was begun', 30 * MINUTE, async () => (await leftToDo(site)) === 0);
}

function otherWork(site: Site, { forges, trackers }: Plan, change: Ways['change']): readonly OtherWork[] {
  const [forge] = forges as readonly [Forge];
  const operator = createOperator(site);
  const running = () => onlyOne(site).running?.composition;
  return [
    {
      name: 'a poll that fails',
      steps: 6,
      async begin() {
        site.weather.turn(`${forge}.test`, 'failed-before', 1, site.clock.elapsed() + MINUTE);
        await change(NEVER, { labels: ['unheard'] });
        await site.partition()?.polls.pollNow();
      },
    },
    {
      name: 'its sweeps',
      steps: 24,
      async begin() {
        const timetable = site.partition()?.timetable;
        const sweeps = [...forges, ...trackers].map((name) => timetable?.runNow(`sweep.${name}`));
        await Promise.all([...sweeps, operator.sweep()]);
      },
    },
    { name: 'a backfill', steps: 40, begin: () => operator.backfill(forge) },
    {
      name: 'a reload',
      steps: 16,
      async begin() {
        site.configure(site.settings());
        await running()?.reload.now();
      },
    },
  ];
}

/** Seconds that any of it takes. */
const LONGEST = 60;

/** Begins the work, and stops the process at that step of it, or when it must be done; then it starts again. */
async function stopsAt(site: Site, step: number, begin: () => Promise<void>): Promise<void> {
  const replica = onlyOne(site);
  const ending = whenReached(replica, step);
  await begin();
  for (let second = 0; second < LONGEST && !ending.begun; second++) await site.pass(SECOND);
  await site.stop(replica, ending.begun);
  await site.during(site.start(replica));
}

/** Kills the process at this step. */
async function diesAt(site: Site, step: number, begin: () => Promise<void>): Promise<void> {
  const replica = onlyOne(site);
  let hasEnded = false;
  replica.running?.life.killAfter(step, () => {
    hasEnded = true;
  });
  await begin();
  for (let second = 0; second < LONGEST && !hasEnded; second++) await site.pass(SECOND);
  await site.bury(replica);
  await site.during(site.start(replica));
}

/** Its end begins in the middle of whatever it does at that step. */
export function whenReached({ running }: Replica, step: number): { begun: Promise<void> | undefined } {
  const ending: { begun: Promise<void> | undefined } = { begun: undefined };
  running?.life.tellAfter(step, () => {
    ending.begun = running.composition.close();
    ending.begun.catch(() => undefined);
  });
  return ending;
}

function onlyOne({ replicas }: Site): Replica {
  return replicas[0] as Replica;
}

/** No plan has so large a number. */
const DELETED = 93;
/** Sweeps come each hour, give or take a tenth; whatever a list lacks is asked for by itself. */
const SWEPT = 75 * MINUTE;

/** A sweep finds deleted items that no webhook and no list of changes reports. */
export async function goneUnheard(
  site: Site,
  tracker: TrackerName,
  { phase, promised }: Ways,
  act: Act,
): Promise<void> {
  const issue = { at: 0, do: 'issue', tracker, number: DELETED } as const;
  const keys = () => new Set(site.providers.held().issues.map(({ key }) => key));
  const before = keys();
  await phase('an item is deleted, and nobody tells', 4, 60, async () => {
    await act({ ...issue, change: 'open', hooks: PROMPT });
    const key = [...keys()].find((each) => !before.has(each)) as string;
    await promised('the task of what will be deleted', 2 * MINUTE, async () =>
      (await lookAtWorkspace(site)).tasks.some(({ source }) => source === key),
    );
    await act({ ...issue, change: 'deleted', hooks: NEVER });
    await promised('that an item is gone', SWEPT, () => isGone(site, key));
  });
}

/** As the table says, past the program. */
async function isGone(site: Site, key: string): Promise<boolean> {
  const store = site.partition()?.store;
  if (!store) return false;
  const { rows } = await sql<{ gone: number }>`
    select gone from items where workspace = ${store.query.workspace} and key = ${key}`.execute(store.query.whole);
  return rows.some(({ gone }) => gone === 1);
}

/** No plan has so large a number. */
const MASS = [81, 82, 83, 84];

/** A poll brings many new pull requests: the first is sent, the others need the approval of a person, and the status says so. */
export async function guards(site: Site, { phase, promised, seen, change }: Ways): Promise<void> {
  const heldNow = async () =>
    (await site.partition()?.store.query.selectFrom('outbox').select('entity').where('state', '=', 'held').execute()) ??
    [];
  await phase('a mass comes', 2 * MASS.length, 60, async () => {
    await reloaded(site, 1);
    for (const number of MASS) await change(NEVER, {}, number);
    void site.partition()?.polls.pollNow();
    await promised('a mass is held', MINUTE, async () => (await heldNow()).length === MASS.length - 1);
    await promised('a status that tells of it', MINUTE, async () => (await statusOf(site))?.verdict === 'degraded');
    await site.during(createOperator(site).look());
    await site.pass(MINUTE);
    await site.releaseHeld();
    for (const number of MASS) await seen('what was held', 2 * MINUTE, number);
    await reloaded(site, 'off');
  });
}

/** With another limit of the guard. */
async function reloaded(site: Site, creations: number | 'off'): Promise<void> {
  site.configure({ ...site.settings(), creations });
  const composition = site.replicas[0]?.running?.composition;
  if (composition) await site.during(composition.reload.now());
}

/** No webhook tells of them. */
const UNHEARD = [95, 96];
const UNREADABLE = [71, 72, 73, 74, 75];
/** Requests for those to a provider out of reach, within five minutes: they wait together. Names in doubt are asked for too. */
const ASKED_IN_VAIN = 66;

/** A comment on an unknown pull request only names it, so worksync reads the pull request. */
export async function namesOnly(site: Site, { phase, seen, change }: Ways, act: Act): Promise<void> {
  const [one, other] = UNHEARD as [number, number];
  const comment = (number: number) => act({ at: 0, do: 'comment', number, hooks: PROMPT });
  await phase('somebody comments on what nobody told of', 4, 8, async () => {
    await change(NEVER, {}, one);
    await comment(one);
    await seen('what was commented on', MINUTE, one);
  });
  await phase('it changes while it is read', 6, 8, async () => {
    await change(NEVER, {}, other);
    site.weather.turn('github.test', 'slow', 1, site.clock.elapsed() + 10 * MINUTE);
    await comment(other);
    await site.pass(2 * SECOND);
    await change(NEVER, { labels: ['read'] }, other);
    await comment(other);
    await site.pass(2 * SECOND);
    site.weather.clear();
    await seen('what changed while it was read', 3 * MINUTE, other);
    // A link may wait for the list of tasks.
    await site.pass(3 * MINUTE);
  });
}

/** All that wait to be read wait together while their provider is out of reach. */
export async function unreadable(site: Site, { phase, seen, change }: Ways, act: Act): Promise<void> {
  const { recorder, weather, clock, pass, settings, tell } = site;
  await phase('what is to be read cannot be read', 2 * UNREADABLE.length, 20, async () => {
    for (const number of UNREADABLE) await change(NEVER, {}, number);
    const before = recorder.events.length;
    weather.turn('github.test', 'failed-before', 1, clock.elapsed() + 5 * MINUTE);
    for (const number of UNREADABLE) await act({ at: 0, do: 'comment', number, hooks: PROMPT });
    await pass(5 * MINUTE);
    const asked = recorder.events
      .slice(before)
      .filter((event) => event.what === 'sent' && new URL(event.url).host === 'github.test');
    const most = ASKED_IN_VAIN + 2 * Math.ceil(5 / settings().poll);
    if (asked.length > most) tell(`waste: ${asked.length} requests to who is out of reach`);
    for (const number of UNREADABLE) await seen('what could not be read', 3 * MINUTE, number);
    // A link may wait for the list of tasks.
    await pass(3 * MINUTE);
  });
}

/**
 * Ours gets another name, and somebody makes another repository under the former name. worksync follows ours, until a person says
 * that the other one is meant; who was wrong says it once more, and all is as it was.
 */
export async function nameGoesToAnother(site: Site, { phase, promised, seen, change }: Ways): Promise<void> {
  const { providers } = site;
  const { rebind } = createOperator(site);
  // Each record has the address of its pull request in it.
  const writes = 12 + 2 * providers.held().pulls.length;
  await phase('another repository gets the name', writes, 60, async () => {
    providers.rename('acme/old');
    providers.giveName(true);
    await tellPast(site, 'another', providers.ofAnother);
    await promised('a status that tells of it', MINUTE, () => isTold(site));
    await change(PROMPT, { labels: ['ours'] });
    await seen('a change of ours, that has another name', 2 * MINUTE);
    await site.during(rebind('github'));
    await site.pass(MINUTE);
    if (await isTold(site)) site.tell('status: it tells of a name that somebody has bound again');
  });
  await phase('the name is ours again', writes, 60, async () => {
    providers.giveName(false);
    providers.rename('acme/app');
    await tellPast(site, 'ours', (hook) => hook);
    await promised('a status that tells of it again', MINUTE, () => isTold(site));
    await site.during(rebind('github'));
    await change(PROMPT, { labels: ['ours again'] });
    await seen('a change of ours, that has its name again', 2 * MINUTE);
    // The list of changes reports what the webhooks missed.
    await site.pass(3 * MINUTE);
  });
}

async function isTold(site: Site): Promise<boolean> {
  return JSON.stringify(await statusOf(site)).includes('names_rebound');
}

/** A webhook of which nothing is to come: it is of a repository that is not meant. */
async function tellPast(site: Site, delivery: string, from: (hook: Hook) => Hook): Promise<void> {
  const [{ origin }] = site.replicas as [Replica];
  const pull = { at: 0, do: 'pull', forge: 'github', number: NUMBER, hooks: NEVER } as const;
  const hook = site.providers.change({ ...pull, change: { labels: [delivery] } }, `of-${delivery}`);
  if (!hook) return;
  const url = `${origin}/webhooks/test/github`;
  await site.during(site.network.direct.request({ method: 'POST', url, target: 'hook', ...from(hook()) }));
}

/** Two more that nobody else touches. */
const OTHERS = [97, 98];

export async function goesThroughTroubles(site: Site, forge: Forge, ways: Ways): Promise<void> {
  // A single failing change may itself be the cause, so it is retried with the longest pause.
  await outage(site, ways, { numbers: [NUMBER, ...OTHERS], within: 3 * MINUTE });
  await outage(site, ways, { numbers: [NUMBER], within: 6 * MINUTE });
  await refusal(site, ways, { trouble: 'revoked', state: 'halted' });
  await refusal(site, ways, { trouble: 'limited', state: 'waiting' });
  await oneFails(site, ways);
  await pollsFail(site, forge, ways);
}

async function outage(
  site: Site,
  { phase, promised, seen, change }: Ways,
  { numbers, within }: { readonly numbers: readonly number[]; readonly within: number },
): Promise<void> {
  await phase(`nothing gets through for twenty minutes, of ${numbers.length}`, 60, 60, async () => {
    site.weather.turn(WORKSPACE, 'failed-before', 1, site.clock.elapsed() + 20 * MINUTE);
    for (const number of numbers) await change(PROMPT, { names: number % MOST_NAMED, labels: ['out'] }, number);
    await site.pass(10 * MINUTE);
    await promised('a status that tells of it', MINUTE, async () => (await statusOf(site))?.verdict === 'blocked');
    await site.pass(9 * MINUTE);
    await seen('what changed while nothing got through', within);
  });
}

async function refusal(
  site: Site,
  { phase, promised, seen, change }: Ways,
  { trouble, state }: { readonly trouble: 'revoked' | 'limited'; readonly state: 'halted' | 'waiting' },
): Promise<void> {
  await phase(`the workspace says that it is ${trouble}`, 12, 40, async () => {
    site.weather.turn(WORKSPACE, trouble, 1, site.clock.elapsed() + 8 * MINUTE);
    await change(PROMPT, { labels: [trouble] });
    await promised('a state that tells of it', 3 * MINUTE, async () => {
      const own = (await statusOf(site))?.workspaces.find(({ name }) => name === 'test');
      return own?.state.kind === state;
    });
    await site.pass(6 * MINUTE);
    await seen(`what changed while it said that it is ${trouble}`, 7 * MINUTE);
  });
}

/** It delays no other one. */
async function oneFails(site: Site, { phase, seen, change }: Ways): Promise<void> {
  await phase('one change fails', 24, 40, async () => {
    const [bad] = OTHERS as [number, number];
    const words = `"identifier":"${bad}"`;
    site.weather.turn(WORKSPACE, 'failed-before', 1, site.clock.elapsed() + 30 * MINUTE, words);
    await change(PROMPT, { labels: ['bad'] }, bad);
    for (let time = 0; time < 4; time++) {
      await site.pass(2 * MINUTE);
      await change(PROMPT, { labels: [`good ${time}`] });
      await seen('a change while another one fails', MINUTE);
    }
    site.weather.clear();
    await site.pass(MINUTE);
    await site.releaseHeld();
    await seen('what has failed', 15 * MINUTE, bad);
  });
}

async function pollsFail(site: Site, forge: Forge, { phase, seen, change }: Ways): Promise<void> {
  const server = `${forge}.test`;
  const turn = (trouble: 'failed-before' | 'hidden' | 'limited', duration: number) =>
    site.weather.turn(server, trouble, 1, site.clock.elapsed() + duration);
  const { poll } = site.settings();
  /** Minutes: after the seven failures that short pauses leave room for, the next pause is 320 seconds at most, or the interval. */
  const retried = Math.min(poll, 6) + 1;
  /** A change that nothing tells of, and a poll that cannot find it. */
  const missed = async (outcome: 'failed' | 'limited') => {
    const counted = () => site.counts.of('polls_total', { outcome });
    const before = counted();
    await change(NEVER, { labels: [outcome] });
    void site.partition()?.polls.pollNow();
    await seen(`a change that a ${outcome} poll has missed`, (outcome === 'failed' ? retried : 4) * MINUTE);
    if (counted() === before) site.tell(`metrics: no ${outcome} poll is counted`);
  };
  await change(NEVER, { labels: [] });
  await seen('a change without a webhook', (poll + 3) * MINUTE);
  await phase('a poll fails', 6, 40, async () => {
    turn('failed-before', 20 * SECOND);
    await missed('failed');
  });
  await phase('a provider hides what is there, and is limited later', 12, 80, async () => {
    turn('hidden', 20 * SECOND);
    void site.partition()?.polls.pollNow();
    // Then its names are in doubt, and asked for by the next poll.
    await site.pass(25 * SECOND);
    turn('limited', 20 * SECOND);
    await missed('limited');
  });
  // Whoever is limited waits as long as it is told to, and then goes on.
  turn('limited', (poll + 1) * MINUTE);
  await change(NEVER, { labels: ['long'] });
  await seen('a change without a webhook at a provider that limits', (2 * poll + 5) * MINUTE);
}
