import { loseDatabase } from '../../faults/lose-database.ts';
import { createWorld, GITHUB, WEBHOOK_SECRET, type World } from '../../harness/daemon.ts';
import { pullEvent } from '../../vendors/github-payloads.ts';
import { createTracker, issue, tell } from '../tracker.ts';
import type { Behaviours } from './dimensions.ts';
import { count, doubled, type Seen, shownUrl } from './seen.ts';

/** Features that a server may prevent. Links are not among them if the link routes work. */
export type Feature = 'records' | 'links' | 'removals' | 'triage' | 'everything';

export interface Ending {
  readonly wrong: readonly { readonly feature: Feature; readonly what: string }[];
  /** Codes of the causes that the status reports, and of held changes. */
  readonly codes: readonly string[];
  readonly seen: Seen;
}

const CONFIG = {
  connections: {
    github: GITHUB,
    tracker: { connector: 'tracker', webhookSecrets: WEBHOOK_SECRET, poll: 'off' },
  },
  rules: { triage: [{ create: 'bug', labels: ['external'], priority: { '*': 'high' } }] },
  guard: { creations: 'off', removals: 'off', repairs: 'off' },
};

const URL_OF = (number: number) => `https://github.com/acme/app/pull/${number}`;
/** Longest wait for work that the daemon may never be able to do, milliseconds of virtual time. */
const LONGEST = 1_200_000;

export interface Setting {
  /** The answers to the first creation and the first link are lost. */
  readonly isLossy?: boolean;
  readonly isConfigured?: boolean;
}

const VERSION_HEADER = 'X-One-Api-Version';

/** A world with this server, in which the answers to the first creation and the first link are lost. */
async function open(behaviours: Behaviours, { isLossy = false, isConfigured = false }: Setting) {
  const lost = new Set<string>();
  const tracker = createTracker();
  const settings = (webhook?: { readonly key: string }) => ({
    ...CONFIG,
    workspace: { ...(webhook && { webhook }), ...(isConfigured && { api: { versionHeader: VERSION_HEADER } }) },
  });
  const world = await createWorld({
    behaviours,
    connectors: [tracker.connector],
    loses({ route }, { status }) {
      const isLost = isLossy && ['createBug', 'addWorkItem'].includes(route) && status < 300 && !lost.has(route);
      if (isLost) lost.add(route);
      return isLost;
    },
    config: settings(),
  });
  const url = `${world.daemon().address}/webhooks/test/workspace`;
  // The workspace makes the key, and sends events to one address: each further daemon listens there.
  const { key } = (await world.people.createWebhook({ body: { url } }, {})).body;
  const restart = (meanwhile?: (data: string) => unknown) =>
    world.restart({ config: settings({ key }), keepPort: true, ...(meanwhile && { meanwhile }) });
  await restart();
  let minute = 0;
  return {
    world,
    restart,
    rest: () => world.settled(LONGEST).catch(() => undefined),
    async deliver(setting: NonNullable<Parameters<typeof pullEvent>[0]>) {
      const updated = new Date(Date.UTC(2026, 0, 5, 8, ++minute)).toISOString();
      await world.deliver('pull_request', pullEvent({ ...setting, updated }));
    },
    async report(number: number) {
      const item = issue(number, { updatedAt: world.clock.now(), labels: ['ui'], priority: 'P1' });
      await tell(world.daemon().address, item, { secret: WEBHOOK_SECRET });
    },
    bug: async (title: string) => (await world.people.createBug({ body: { title } }, {})).body,
    /** Text by which people name a task. */
    nameOf: ({ taskId, key }: { readonly taskId: string; readonly key: string }) =>
      behaviours['task object'] === 'no key' ? taskId : key,
  };
}

/**
 * Two pull requests name tasks, one changes its mind, a person adds a link, an issue becomes a task, answers are lost, and the
 * daemon is killed and started again.
 */
export async function playDay(behaviours: Behaviours, setting: Setting = {}): Promise<Ending> {
  const story = await open(behaviours, setting);
  const { world, bug, rest, deliver, report, nameOf } = story;
  try {
    const [first, second] = [await bug('First'), await bug('Second')];
    await rest();
    await deliver({ number: 1, head: `${nameOf(first)}-door` });
    await deliver({ number: 2, title: `${nameOf(second)}: window` });
    await report(1);
    await rest();
    await deliver({ number: 2, title: `${nameOf(first)}: window` });
    await rest();
    await world.people.addWorkItem({ taskId: second.taskId, body: { url: URL_OF(1) } }, {});
    await world.clock.advance(10 * 60_000);
    await deliver({ number: 1, head: `${nameOf(first)}-door`, title: 'Another title' });
    await report(2);
    await rest();
    const start = world.kill({ keepPort: true });
    await start();
    await rest();
    return await endingOf(story, behaviours, [
      ...[`${first.taskId} ${URL_OF(1)}`, `${first.taskId} ${URL_OF(2)}`, `${second.taskId} ${URL_OF(1)}`],
    ]);
  } finally {
    await world.close();
  }
}

/**
 * A first start on a workspace that has tasks and links: a person linked a pull request that names its task, and one that names
 * none. Then the database is lost, and everything starts anew.
 */
export async function playFirstStart(behaviours: Behaviours, setting: Setting = {}): Promise<Ending> {
  const story = await open(behaviours, setting);
  const { world, bug, restart, rest, deliver, report, nameOf } = story;
  try {
    const [first, second, third] = [await bug('First'), await bug('Second'), await bug('Third')];
    await world.people.addWorkItem({ taskId: first.taskId, body: { url: URL_OF(1) } }, {});
    await world.people.addWorkItem({ taskId: third.taskId, body: { url: URL_OF(3) } }, {});
    const start = async () => {
      await deliver({ number: 1, head: `${nameOf(first)}-door` });
      await deliver({ number: 2, title: `${nameOf(second)}: window` });
      await deliver({ number: 3, title: 'Nothing named' });
      await rest();
    };
    await start();
    await report(1);
    await report(2);
    await rest();
    // A person made this link: it stays although the text no longer asks for it.
    await deliver({ number: 1, head: 'door' });
    await rest();
    // A list may be half a minute behind.
    await world.clock.advance(60_000);
    await restart(loseDatabase);
    await start();
    await report(1);
    await report(2);
    await rest();
    return await endingOf(story, behaviours, [
      ...[`${first.taskId} ${URL_OF(1)}`, `${second.taskId} ${URL_OF(2)}`, `${third.taskId} ${URL_OF(3)}`],
    ]);
  } finally {
    await world.close();
  }
}

const WRITES = ['createBug', 'addWorkItem', 'removeWorkItem', 'recordPullRequest', 'createPullRequest'];

function writesOf({ server }: World): number {
  return WRITES.reduce((sum, route) => sum + (server?.seen.requests.get(route) ?? 0), 0);
}

/** After one more start, which has nothing to write. @param expected the links, by task and address */
async function endingOf(
  { world, restart, rest }: Awaited<ReturnType<typeof open>>,
  behaviours: Behaviours,
  expected: readonly string[],
): Promise<Ending> {
  const sent = writesOf(world);
  await restart();
  await rest();
  const seen = world.server?.seen as Seen;
  const wrong: { feature: Feature; what: string }[] = [];
  const say = (feature: Feature, what: string) => wrong.push({ feature, what });
  if (behaviours.webhooks !== 'none' && seen.webhooks.size === 0) say('everything', 'no event was accepted');
  const { body } = await world.people.listTasks({ query: { all: true } }, {});
  const links = new Map<string, number>();
  for (const { taskId } of body.tasks) {
    const { workItems } = (await world.people.listWorkItems({ taskId }, {})).body;
    for (const { url } of workItems) count(links, `${taskId} ${shownUrl(url)}`);
  }
  const made = body.tasks.filter(({ title }) => title.startsWith('Issue'));
  for (const number of [1, 2]) {
    const own = made.filter(({ title }) => title === `Issue ${number}`);
    if (own.length === 0) say('triage', `issue ${number} has no task`);
    if (own.length > 1) say('everything', `issue ${number} has ${own.length} tasks`);
    const link = own[0] && [...links.keys()].some((name) => sameLink(name, `${own[0]?.taskId} ${issue(number).url}`));
    if (own.length === 1 && !link) say('links', `the task of issue ${number} has no link`);
  }
  for (const name of expected)
    if (![...links.keys()].some((present) => sameLink(present, name))) say('links', `no ${name}`);
  for (const [name, times] of links) {
    if (times > 1) say('everything', `${times} times ${name}`);
    if (!expected.some((each) => sameLink(name, each)) && !name.includes('/issues/')) say('removals', `still ${name}`);
  }
  for (const name of doubled(seen)) say('everything', `doubled: ${name}`);
  for (const title of seen.opened) say('everything', `opened a pull request: ${title}`);
  const records = (await world.people.listPullRequestRecords({ query: {} }, {})).body.pullRequests.length;
  if (records < 2) say('records', `${records} records`);
  const more = writesOf(world) - sent;
  if (more > 0) say('everything', `${more} writes after a restart`);
  const status = await world.partition().status();
  for (const kind of await waitingKinds(world)) say(FEATURES[kind] ?? 'everything', `a ${kind} waits for ever`);
  const codes = [
    ...status.causes.map(({ code }) => code),
    ...status.changes.stuck.map(({ failure }) => failure?.code ?? ''),
    ...(status.mirror.place === 'workspace' ? [] : [`mirror ${status.mirror.place}`]),
  ];
  return { wrong, codes: [...new Set(codes)], seen };
}

const FEATURES: Readonly<Record<string, Feature>> = {
  link: 'links',
  task: 'triage',
  pull_request: 'records',
  removal: 'removals',
};

async function waitingKinds(world: World): Promise<string[]> {
  const rows = await world
    .partition()
    .store.query.selectFrom('outbox')
    .select(['kind', 'effect'])
    .where('state', '!=', 'held')
    .execute();
  return [...new Set(rows.map(({ kind, effect }) => (kind === 'read' && effect === 'removal' ? effect : kind)))];
}

/** Servers may drop the case, the fragment and the slash of an address. */
function sameLink(left: string, right: string): boolean {
  const plain = (name: string) => name.replace(/#.*$/, '').replace(/\/$/, '').toLowerCase();
  return plain(left) === plain(right);
}
