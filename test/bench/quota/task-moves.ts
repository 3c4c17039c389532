import { saveTask } from '../../../src/store/tasks/stored-tasks.ts';
import { createRules } from '../../../src/sync/reconcile/context.ts';
import type { ApiRequest } from '../../../src/workspace-api/typed-client.ts';
import type { TravellingClock } from '../../support/fakes/travelling-clock.ts';
import type { OpenedStore } from '../../support/harness/store.ts';
import { type Bench, expectPremise, figuresOf, type Measured } from '../bench.ts';
import type { Moving } from './daemon.ts';
import { play } from './play.ts';
import { createChance } from './references/chance.ts';
import { daysOf } from './references/day.ts';
import { freshness, quantile } from './references/lag.ts';
import { eventsOf, type Line } from './references/trace.ts';
import { expectWithinWindows } from './server.ts';

/** Days are long to play: two of each load, in percent of the requests that the quota allows. */
const LOADS = [10, 30] as const;
const DAYS = 2;
/** Shares of pull requests that name a task; of these, by a closing word, and two tasks. Share of tasks that people edit. */
const NAMED = 0.6;
const CLOSING = 0.2;
const TWO = 0.1;
const EDITED = 0.05;
const NOTE = 'a read that finds the status of a person leads to no update';
const UNLIMITED = { requests: 1_000_000, burst: 1_000_000 };

/**
 * Days on which pull requests name tasks and people move some of these: what the preset costs. `requests`: status updates
 * against those of the same day without a quota. `reads`: reads of tasks for each update. `links` and `mirrors`: the 95th
 * percentile of their lags with the preset against the same day without it.
 */
export const taskMoves: Bench = {
  figures: ['tasks.moves'],
  async run({ split }) {
    const figures: Measured[] = [];
    for (const load of LOADS) {
      const days = await Promise.all(
        daysOf(split, load / 100)
          .slice(0, DAYS)
          .map((lines, index) => measure(lines, index)),
      );
      const name = `tasks.moves.${load}`;
      const each = { everyRun: true } as const;
      figures.push(
        ...figuresOf(
          days,
          {
            ...{ ...each, name: `${name}.requests`, unit: 'updates', aim: 1.1 },
            ...{ of: ({ on }) => on.updates, against: ({ free }) => free.updates },
          },
          { name: `${name}.reads`, unit: 'reads', aim: 1, note: NOTE, of: ({ on }) => on.reads / on.updates },
          {
            ...{ ...each, name: `${name}.links`, unit: 's', aim: 1.05 },
            ...{ of: ({ on }) => on.links, against: ({ off }) => off.links },
          },
          {
            ...{ ...each, name: `${name}.mirrors`, unit: 's', aim: 1.05 },
            ...{ of: ({ on }) => on.mirrors, against: ({ off }) => off.mirrors },
          },
        ),
      );
    }
    return figures;
  },
};

async function measure(lines: readonly Line[], index: number) {
  const named = withTasks(lines, 500 + index);
  return {
    on: await run(named, { preset: true }),
    off: await run(named, { preset: false }),
    free: await run(named, { preset: true, quota: UNLIMITED }),
  };
}

type NamedDay = ReturnType<typeof withTasks>;

/** Lets pull requests name tasks: one task for two pull requests on average. */
function withTasks(lines: readonly Line[], seed: number) {
  const chance = createChance(seed);
  const items = [...new Set(lines.map(({ item }) => item))];
  const tasks = Math.max(1, Math.floor(items.length / 2));
  const texts = new Map(items.map((item) => [item, chance.happens(NAMED) ? textOf(chance, tasks) : undefined]));
  const opened = new Map<string, number>();
  const firstNamed = new Map<string, number>();
  for (const { item, at } of lines) {
    if (!opened.has(item)) opened.set(item, at);
    for (const key of texts.get(item)?.keys ?? []) {
      const name = `${urlOf(item)} ${key}`;
      if (!firstNamed.has(name)) firstNamed.set(name, at);
    }
  }
  // Edits by people: the number of a task, a status, and the second of the day.
  const edits = Array.from({ length: tasks }, (_, task) => task).flatMap((task) =>
    chance.happens(EDITED)
      ? [{ task, status: chance.happens(0.5) ? 'blocked' : 'planned', at: chance.between(0, 86_400) }]
      : [],
  );
  const told = lines.map((line) => {
    const text = texts.get(line.item);
    const { fields } = line;
    if (text === undefined) return line;
    return { ...line, fields: { ...fields, title: `${text.title}${fields.title}`, description: text.description } };
  });
  return { lines: told, tasks, edits, firstNamed, opened };
}

function textOf(chance: ReturnType<typeof createChance>, tasks: number) {
  const count = chance.happens(TWO) ? 2 : 1;
  const keys = Array.from({ length: count }, () => `BUG-${chance.whole(1, tasks)}`);
  if (chance.happens(CLOSING)) return { keys, title: '', description: keys.map((key) => `Fixes ${key}`).join('\n') };
  return { keys, title: `${keys.join(', ')}: `, description: '' };
}

const urlOf = (item: string) => `https://github.com/acme/${item.replace('/', '/pull/')}`;

async function run(day: NamedDay, { preset, quota }: { preset: boolean; quota?: typeof UNLIMITED }) {
  const seen = { updates: 0, reads: 0, links: [] as number[] };
  const { server, took } = await play({
    lines: day.lines,
    ...(quota && { quota }),
    moving: (clock, store) => workspaceOf(clock, store, day, { preset, seen }),
  });
  if (!quota) expectWithinWindows(server);
  expectPremise(seen.updates > 0 === preset && seen.links.length > 0, 'links are added, and tasks move by the preset');
  const mirrors = freshness(eventsOf(day.lines), server.writes, took).lags;
  // 95th percentiles of lags, seconds.
  return { ...seen, links: quantile(seen.links, 0.95), mirrors: quantile(mirrors, 0.95) };
}

interface Task {
  status: string;
  updatedAt: string;
}

/** The workspace: its tasks, what people do to them, and what the daemon asks of them. */
async function workspaceOf(
  clock: TravellingClock,
  store: OpenedStore,
  { tasks: count, edits, firstNamed, opened }: NamedDay,
  { preset, seen }: { readonly preset: boolean; readonly seen: { updates: number; reads: number; links: number[] } },
): Promise<Moving> {
  const begin = clock.now();
  const time = () => new Date(clock.now()).toISOString();
  const tasks = Array.from({ length: count }, (): Task => ({ status: 'open', updatedAt: time() }));
  const shown = (number: number) => {
    const task = tasks[number] as Task;
    const names = { taskId: `tsk_${number + 1}`, key: `BUG-${number + 1}`, title: 'A task', source: 'api' };
    return { ...names, workspaceId: 'ws_bench', kind: 'bug', createdAt: new Date(begin).toISOString(), ...task };
  };
  for (let number = 0; number < count; number++)
    await saveTask(store.query, { ...shown(number), statusBefore: 0 }, clock.now());
  for (const { task, status, at } of edits)
    clock.after(at * 1_000, () => Object.assign(tasks[task] as Task, { status, updatedAt: time() }));
  const numberOf = ({ path = '' }: { readonly path?: string }) => Number(/tsk_(\d+)/.exec(path)?.[1]) - 1;
  return {
    rules: createRules({
      ...{ trailers: ['Task'], links: [], addresses: [], grammars: [], triage: [], users: {}, documents: false },
      ...(preset && { workflow: { preset: 'standard', rules: [], several: 'all', bots: 'names', trust: 'anyone' } }),
    }),
    factsOf: ({ item, fields, updated }) => ({
      url: urlOf(item),
      repoName: `acme/${item.split('/')[0]}`,
      defaultBranch: 'main',
      isPublic: false,
      author: 'ann',
      createdAt: new Date(begin + (opened.get(item) ?? 0) * 1_000).toISOString(),
      ...(fields.state !== 'open' && { closedAt: new Date(begin + updated * 1_000).toISOString() }),
      ...(fields.state === 'merged' && { mergedAt: new Date(begin + updated * 1_000).toISOString() }),
      updatedAt: begin + updated * 1_000,
    }),
    answer(request) {
      const number = numberOf(request);
      if (request.route === 'getTask') {
        seen.reads++;
        return shown(number);
      }
      if (request.route === 'updateTask') {
        seen.updates++;
        Object.assign(tasks[number] as Task, { status: (request.body as Task).status, updatedAt: time() });
        return shown(number);
      }
      if (request.route === 'listTasks') return { tasks: tasks.map((_, each) => shown(each)) };
      if (request.route === 'listWorkItems') return { workItems: [] };
      return request.route === 'addWorkItem' ? added(request, number) : undefined;
    },
  };

  function added({ body }: ApiRequest, number: number): object {
    const { url, externalId } = body as { readonly url: string; readonly externalId: string };
    const since = firstNamed.get(`${url} BUG-${number + 1}`);
    if (since !== undefined) seen.links.push(clock.elapsed() / 1_000 - since);
    const workItemId = `wi_${url.replaceAll(/\W/g, '-')}-${number}`;
    return { workItemId, taskId: `tsk_${number + 1}`, workspaceId: 'ws_bench', url, externalId, createdAt: time() };
  }
}
