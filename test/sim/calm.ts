import { allRecords } from '../support/harness/people.ts';
import { endsAmid, startsAgain } from './calm-alone.ts';
import { together } from './calm-together.ts';
import { type Act, MINUTE, MOST_NAMED, NUMBER, PROMPT, SECOND, type Ways, whileOnItsWay } from './calm-ways.ts';
import { WORKSPACE } from './network.ts';
import { lookAtWorkspace } from './operator.ts';
import type { Happening, Hooks, Plan, PullChange } from './plan.ts';
import type { Site } from './site.ts';

/**
 * After everything is healed and settled nothing is disturbed any more, and the quota is unused: so whatever happens now must be
 * seen in the workspace soon, by few requests, and where nothing happens nothing is written.
 */
export async function calmDay(site: Site, plan: Plan, act: Act): Promise<void> {
  const { forges, trackers } = plan;
  const { clock, recorder, replicas, people } = site;
  const [forge] = forges;
  const isLinked = async (task: string) => {
    const { pulls } = site.providers.held();
    const urls = pulls.find(({ record }) => record['identifier'] === String(NUMBER))?.urls ?? [];
    return (await lookAtWorkspace(site)).links.some((link) => link.taskId === task && urls.includes(link.url));
  };

  const phase: Ways['phase'] = async (name, writes, reads, work) => {
    const began = clock.elapsed();
    await work();
    recorder.record({ what: 'calm', name, began, writes, reads });
    await site.noteRows();
  };
  const promised = async (name: string, within: number, isTrue: () => Promise<boolean>) => {
    const from = clock.elapsed();
    let is = false;
    const limit = within + site.settings().visibility * SECOND;
    while (!is && clock.elapsed() - from < limit) {
      await site.pass(2 * SECOND);
      is = await isTrue();
    }
    recorder.record({ what: 'promised', name, within: limit, took: is ? clock.elapsed() - from : null });
  };
  const change = (hooks: Hooks, wish: PullChange, number = NUMBER) =>
    act({ at: 0, do: 'pull', forge, number, change: wish, hooks } as Happening);
  const isShown = async (number: number) => {
    const { pulls } = site.providers.held();
    const wanted = pulls.find(({ record }) => record['identifier'] === String(number))?.title;
    return (await allRecords(people)).some((record) => record['title'] === wanted);
  };
  const seen = (name: string, within: number, number = NUMBER) => promised(name, within, () => isShown(number));
  const ways: Ways = { phase, promised, seen, change };

  // Names of tasks that do not exist yet are linked now, not when a later task is created.
  let made = '';
  while (numberOf(made) < MOST_NAMED) made = (await people.createBug({ body: { title: 'A calm task' } }, {})).body.key;
  const { key, taskId } = (await lookAtWorkspace(site)).tasks.at(-1) as { key: string; taskId: string };
  // Then no request counts in a window, and a sweep has found the task.
  await site.pass((replicas.length === 1 ? 34 : 17) * MINUTE);
  if (replicas.length === 1) await nothingHappens(site, forges.length + trackers.length);
  await phase('a pull request is opened', 3, 20, async () => {
    await change(PROMPT, { names: numberOf(key) });
    await seen('a webhook of a new pull request', MINUTE);
    await promised('its link', 2 * MINUTE, () => isLinked(taskId));
  });
  await phase('a task is made and named at once', 8, 20, async () => {
    const { body: task } = await people.createBug({ body: { title: 'A task of now' } }, {});
    await change(PROMPT, { names: numberOf(task.key) });
    await promised('a link to a task of now', 2 * MINUTE, () => isLinked(task.taskId));
  });
  const heard = heardTrackers(site, trackers);
  const [tracker] = heard;
  if (tracker)
    await phase('an item is opened', 6, 20, async () => {
      const before = new Set(site.providers.held().issues.map((issue) => issue.key));
      await act({ at: 0, do: 'issue', tracker, number: NUMBER, change: 'open', hooks: PROMPT });
      const wanted = site.providers.held().issues.find((issue) => !before.has(issue.key))?.key;
      await promised('the task of a new item', 2 * MINUTE, async () =>
        (await lookAtWorkspace(site)).tasks.some(({ source }) => source === wanted),
      );
    });
  if (plan.writeBack)
    await phase('an issue names a task', 8, 20, async () => {
      const issue = { at: 0, do: 'issue', tracker: 'jira', number: NUMBER - 1, hooks: PROMPT } as const;
      await act({ ...issue, change: 'open', names: numberOf(key) });
      await promised('a comment that tells of its task', 3 * MINUTE, async () =>
        site.providers
          .held()
          .issues.some(
            ({ title, comments }) => title.startsWith(`${key}:`) && comments?.some(({ text }) => text.includes(key)),
          ),
      );
    });
  await phase('it changes five times within two seconds', 8, 8, async () => {
    for (let time = 0; time < 5; time++) {
      await change(PROMPT, { labels: time % 2 === 0 ? ['bug'] : [] });
      // The last one is of another second: by whole seconds vendors tell which is newer.
      await site.pass(time < 3 ? 300 : 1_100);
    }
    await seen('a burst of webhooks', MINUTE);
    // A link that waits for the list of tasks, or for a task's links, comes later than what it is of.
    await site.pass(3 * MINUTE);
  });
  await phase('it changes while a slow write of it is on its way', 6, 20, async () => {
    site.weather.turn(WORKSPACE, 'slow', 1, clock.elapsed() + 10 * MINUTE);
    await change(PROMPT, { labels: ['first'] });
    await whileOnItsWay(site);
    await change(PROMPT, { labels: ['second'] });
    await site.pass(SECOND);
    site.weather.clear();
    await seen('what was changed while a write was on its way', 2 * MINUTE);
  });
  if (replicas.length === 1) {
    await startsAgain(site, ways);
    await endsAmid(site, plan, ways);
  } else await together(site, plan, ways);
}

/** Neither of the workspace nor of providers is asked more than polls, sweeps and hooks need, nor of the database. */
async function nothingHappens(
  { recorder, clock, pass, settings, statements, tell }: Site,
  connections: number,
): Promise<void> {
  const [began, before] = [clock.elapsed(), statements.count()];
  await pass(16 * MINUTE);
  const polls = Math.ceil(16 / settings().poll) + 1;
  const asked = Math.ceil(1.5 * connections * polls) + 3;
  recorder.record({ what: 'calm', name: 'nothing happens', began, writes: 0, reads: 30, asked });
  const [ran, most] = [statements.count() - before, 300 + 45 * connections * polls];
  if (ran > most) tell(`waste: ${ran} statements while nothing happens`);
}

const numberOf = (key: string) => Number(key.split('-')[1] ?? 0);

/** Deliveries of the generic connector are signed with their time: whose clock is wrong refuses them. */
function heardTrackers({ replicas, databaseServer }: Site, trackers: Plan['trackers']): Plan['trackers'] {
  const wrong = [...replicas.map(({ machine }) => machine.ahead), databaseServer?.ahead ?? 0];
  return trackers.filter((name) => name !== 'generic' || wrong.every((ahead) => ahead === 0));
}
