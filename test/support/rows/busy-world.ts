import { createWorld, WEBHOOK_SECRET, type World, type WorldOptions } from '../harness/daemon.ts';
import { pullEvent } from '../vendors/github-payloads.ts';

/** Titles that people write: they repeat, as those of real repositories do. */
const TITLES = [
  'Pay by card',
  'Show the delivery date in the basket',
  'Retry a failed import once',
  'Bump the date library to 4.2',
  'Rename Customer to Account',
  'Let people change their e-mail address',
  'Log out of all devices at once',
  'Speed up the search for orders by an index',
  'Fix the round-off of invoices with several tax rates, which differed by a cent from what the shop had shown',
  'Translate the checkout into Dutch',
];

const TASKS = [
  'Checkout fails for cards of 2019',
  'Basket forgets its delivery date',
  'Import stops half-way',
  'Dutch shop',
];

const PULLS = 300;
/** The guard holds creations above this number. */
const PASSED = 150;

/**
 * A workspace on a bad day: 300 pull requests of which half need approval, more changes than the quota sends, two connections
 * that nobody answers, and deliveries that cannot be read.
 */
export async function createBusyWorld(options: Pick<WorldOptions, 'tokens'> = {}): Promise<World> {
  const github = {
    ...{ connector: 'github', repositories: ['acme/app'], webhookSecrets: WEBHOOK_SECRET, poll: 'off' },
  };
  // Nobody listens on port 9 of this machine.
  const redmine = { connector: 'redmine', url: 'http://127.0.0.1:9', apiKey: 'a-key', poll: '5m' };
  const tickets = { ...redmine, projects: ['website'] };
  const support = { ...redmine, projects: ['support'] };
  const world = await createWorld({
    ...options,
    config: { connections: { github, tickets, support }, guard: { creations: PASSED } },
  });
  for (const title of TASKS) await world.people.createBug({ body: { title } }, {});
  const updated = new Date(world.clock.now()).toISOString();
  await Promise.all(
    Array.from({ length: PULLS }, (_, index) => {
      const number = index + 1;
      const title = `${TITLES[index % TITLES.length]}${index % 7 === 0 ? ` (BUG-${1 + (index % 4)})` : ''}`;
      return world.deliver('pull_request', pullEvent({ number, title, updated, isOfStranger: true }, 'opened'));
    }),
  );
  await Promise.all(
    Array.from({ length: 3 }, (_, index) =>
      world.deliver('pull_request', { action: 'opened', number: `no number ${index}` }),
    ),
  );
  const until = world.clock.elapsed() + 90_000;
  await world.until(() => world.clock.elapsed() >= until);
  return world;
}
