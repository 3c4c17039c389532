import { chanceOf } from '../bench/quota/references/chance.ts';
import { MINUTE, NEVER, PROMPT, SECOND, type Ways } from './calm-ways.ts';
import { WORKSPACE } from './network.ts';
import { createOperator, leftToDo } from './operator.ts';
import type { Forge, Plan } from './plan.ts';
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

async function stopsAt(site: Site, step: number, begin: () => Promise<void>): Promise<void> {
  const replica = onlyOne(site);
  const ending = whenReached(replica, step);
  await begin();
  for (let second = 0; second < LONGEST && !ending.begun; second++) await site.pass(SECOND);
  await site.stop(replica, ending.begun);
  await site.during(site.start(replica));
}

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
