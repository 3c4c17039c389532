import { createWorld, type World } from '../support/harness/daemon.ts';
import { bitbucketVendor } from '../support/vendors/provider-servers/bitbucket.ts';
import { githubVendor } from '../support/vendors/provider-servers/github.ts';
import { gitlabVendor } from '../support/vendors/provider-servers/gitlab.ts';
import { type Asked, openProvider, type Provider } from '../support/vendors/provider-servers/provider.ts';
import { type Bench, expectPremise, figuresOf, type Measured } from './bench.ts';
import { generateDay } from './quota/references/day.ts';
import { fewestWrites } from './quota/references/lag.ts';
import { eventsOf, type Line } from './quota/references/trace.ts';

const SECRET = 'a webhook secret for the bench only';
const VENDORS = [githubVendor(SECRET), gitlabVendor(SECRET), bitbucketVendor(SECRET)];
const VISIBILITY = 60;
/** Events in working hours per request of the workspace's quota. */
const LOAD = 0.03;
/** A push costs its pull request and a page of its commits. */
const PER_PUSH = 2;
const MINUTE = 60_000;

/**
 * Requests at the providers for each distinct state of an item, after states that follow within the promised visibility are
 * merged: days of three git providers whose webhooks all come, in order. What polls and sweeps ask for themselves is left out.
 * With `commits`, the requests that read them are allowed: two for each push, after pushes are merged likewise.
 */
export const providerCalls: Bench = {
  figures: ['provider.calls'],
  async run({ split }) {
    const figures: Measured[] = [];
    for (const commits of [false, true]) {
      const played: Played[] = [];
      for (const seed of split.seeds) played.push(await playDay(seed, commits));
      const name = commits ? 'provider.calls.commits' : 'provider.calls';
      const told = ({ asked, states, pushes }: Played) => `${asked}/${states}${commits ? ` ${pushes} pushes` : ''}`;
      const note = `requests/states by seed: ${played.map(told).join(', ')}`;
      const allowed = ({ pushes }: Played) => (commits ? PER_PUSH * pushes : 0);
      const perState = (day: Played) => Math.max(0, day.asked - allowed(day)) / day.states;
      figures.push(...figuresOf(played, { name, unit: 'per state', aim: 1.2, everyRun: true, note, of: perState }));
    }
    return figures;
  },
};

interface Played {
  /** Beyond what polls and sweeps ask for. */
  readonly asked: number;
  readonly states: number;
  readonly pushes: number;
}

async function playDay(seed: number, commits: boolean): Promise<Played> {
  // The providers stand before the daemon knows their addresses, on the clock that the world brings.
  const world = await createWorld({});
  const asked: Asked[] = [];
  const providers: Provider[] = [];
  try {
    const given = { clock: world.clock, asked: (question: Asked) => void asked.push(question) };
    for (const vendor of VENDORS) providers.push(await openProvider(vendor, given));
    const connections = providers.map(({ vendor, url }) => [
      vendor.id,
      { connector: vendor.id, ...vendor.options(url), commits, webhookSecrets: SECRET, poll: '2h', sweep: 'off' },
    ]);
    const windows = { requests: 200, window: '15m', burst: 40, burstWindow: '1m' };
    const quota = { ...windows, share: 1, visibility: `${VISIBILITY}s` };
    await world.restart({ config: { connections: Object.fromEntries(connections) as object, quota } });
    await until(world, world.clock.now() + 11 * MINUTE);
    await world.settled();
    asked.length = 0;
    const lines = await deliver(world, providers, seed);
    const refused = providers.flatMap(({ unanswered }) => unanswered);
    expectPremise(refused.length === 0, `asked for what the vendors do not know: ${refused.join(', ')}`);
    const [recorded, pulls] = [(await world.records()).length, new Set(lines.map(({ item }) => item)).size];
    expectPremise(recorded === pulls, `${recorded} of ${pulls} pull requests are recorded`);
    const events = eventsOf(lines);
    const heads = lines.map(({ at, item, fields }) => ({ at, item, state: fields.head, finished: false }));
    return {
      asked: asked.filter((each) => !isOfPolls(each)).length,
      states: fewestWrites(events, VISIBILITY),
      pushes: fewestWrites(heads, VISIBILITY),
    };
  } finally {
    await world.close();
    for (const provider of providers) await provider.close();
  }
}

/** The whole day, each webhook a second after its event. */
async function deliver(world: World, providers: readonly Provider[], seed: number): Promise<readonly Line[]> {
  const lines = generateDay(seed, LOAD).filter(({ event }) => event !== 'replay' && event !== 'poll');
  const day = world.clock.now();
  for (const [index, line] of lines.entries()) {
    await until(world, day + line.at * 1_000);
    const provider = providers[Number(line.item.split('/')[1]) % providers.length] as Provider;
    const pull = provider.happen(line, day);
    await until(world, world.clock.now() + 1_000);
    const status = await world.post(provider.vendor.id, provider.vendor.hook(pull, line.event, `delivery-${index}`));
    if (status !== 202) throw new Error(`a webhook was answered with ${status}`);
  }
  await until(world, world.clock.now() + 30 * MINUTE);
  await world.settled();
  return lines;
}

/** The daemon at work in between: what it asks is answered before the clock goes on. */
async function until(world: World, at: number): Promise<void> {
  const wait = at - world.clock.now();
  if (wait <= 0) return;
  let isOver = false;
  world.clock.after(wait, () => {
    isOver = true;
  });
  await world.until(() => isOver, 2 * wait);
}

/** Lists that polls walk, and what a name leads to. */
function isOfPolls({ method, url }: Asked): boolean {
  if (method !== 'GET') return false;
  return /\/(pulls|merge_requests|pullrequests)$|^\/(repos|repositories)\/[^/]+\/[^/]+$|^\/projects\/[^/]+$/.test(
    url.pathname,
  );
}
