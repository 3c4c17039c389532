import { afterEach, describe, expect, it } from 'vitest';
import type { Fault } from '../../src/reference-service/http/pipeline.ts';
import { createForge, type Forge, type ForgePull, pulls } from '../support/fakes/forge.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';

/** All answers of the workspace, to any caller, are captured in one way. */

const MINUTE = 60_000;
const THEN = Date.UTC(2026, 0, 4, 9);
const SECRET = 'a webhook secret for tests only';
const RECORD = { provider: 'gitlab', repoId: 'app', identifier: '1' } as const;

let world: World;
let forge: Forge;
afterEach(() => world.close());

/** One pull request, mirrored; nothing tells of it but a poll a month, and no webhook tells of the workspace. */
async function open(options: WorldOptions = {}): Promise<void> {
  forge = createForge({ app: pulls(1, THEN).map((pull) => ({ ...pull, state: 'open' })) });
  const connections = { forge: { connector: 'gitlab', webhookSecrets: SECRET, poll: '30d', sweep: 'off' } };
  world = await createWorld({ connectors: [forge.connector], config: { connections }, ...options });
  await world.until(async () => (await titles()).length === 1);
  await rest();
}

async function rest(): Promise<void> {
  await world.settled();
  await world.clock.advance(MINUTE);
  await world.settled();
  world.weather.arrivals.length = 0;
}

const titles = async () => (await world.records()).map(({ title }) => title);
const asked = () => world.weather.arrivals.splice(0).map(({ method, url }) => `${method} ${url.replace(/^.*\//, '')}`);
/** As commands send: through the daemon, with its key and its quota. */
const command = () => world.partition().client;
const NOW = { lane: 'interactive' } as const;

function edit(pull: Partial<ForgePull>): void {
  const [held] = forge.repositories.get('app') as [ForgePull];
  forge.repositories.set('app', [{ ...held, ...pull, updatedAt: held.updatedAt + MINUTE }]);
}

describe('a record that a command edited', () => {
  it('is written again as the provider has it, once', async () => {
    await open();
    await command().updatePullRequest({ body: { ...RECORD, title: 'By hand' } }, NOW);
    expect(await titles()).toEqual(['By hand']);
    await world.settled();
    await world.clock.advance(MINUTE);
    await world.settled();
    expect(await titles()).toEqual(['Pull 1']);
    expect(asked()).toEqual(['PATCH pull-requests', 'POST pull-request-records']);
  });

  it('stays as it is where the provider was edited with it, though nothing has told of that', async () => {
    await open();
    edit({ title: 'By hand' });
    forge.asked.length = 0;
    await command().updatePullRequest({ body: { ...RECORD, title: 'By hand' } }, NOW);
    await world.settled();
    await world.clock.advance(MINUTE);
    await world.settled();
    expect(await titles()).toEqual(['By hand']);
    expect(forge.asked).toEqual(['fetch app 1']);
    expect(asked()).toEqual(['PATCH pull-requests']);
  });

  it.each<[string, Fault, string]>([
    ['no answer', 'cut', 'outcome_unknown'],
    ['a failure of the server', { status: 500, body: 'an error' }, 'server_failed'],
  ])('is read again among the few of its branch, and repaired, where %s came', async (_name, fault, code) => {
    await open();
    world.weather.turn({ after: ({ method }) => (method === 'PATCH' ? fault : undefined) });
    const sent = command().updatePullRequest({ body: { ...RECORD, title: 'By hand' } }, NOW);
    await expect(sent).rejects.toMatchObject({ code });
    expect(await titles()).toEqual(['By hand']);
    await world.settled();
    await world.clock.advance(2 * MINUTE);
    await world.settled();
    expect(await titles()).toEqual(['Pull 1']);
    expect(asked()).toEqual([
      'PATCH pull-requests',
      'GET pull-request-records?limit=100&provider=gitlab&repoId=app&headBranch=feature',
      'POST pull-request-records',
    ]);
  });
});

it('a task that a command finished is known to be so', async () => {
  await open();
  const { taskId } = (await command().createBug({ body: { title: 'It breaks' } }, NOW)).body;
  await command().updateTask({ taskId, body: { status: 'completed' } as never }, NOW);
  await world.settled();
  const rows = await world.partition().store.query.selectFrom('tasks').select(['task_id', 'status']).execute();
  expect(rows).toEqual([{ task_id: taskId, status: 'completed' }]);
});

describe('a stranger at the gateway', () => {
  async function ask(method: string, path: string, body: object, secret: string): Promise<number> {
    const answer = await fetch(`${world.daemon().address}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return answer.status;
  }
  const newKey = async () => (await world.people.createApiKey({ body: { description: 'a job' } }, {})).body.secret;

  it('who edits a record is heard also in a workspace without tasks, which tells nobody its id', async () => {
    await open();
    expect(await world.partition().upstream.workspaceId()).toBeUndefined();
    const body = { ...RECORD, title: 'By hand' };
    expect(await ask('PATCH', '/workspaces/current/pull-requests', body, await newKey())).toBe(200);
    await world.settled();
    await world.clock.advance(2 * MINUTE);
    await world.settled();
    expect(await titles()).toEqual(['Pull 1']);
    expect(asked()).toEqual([
      'PATCH pull-requests',
      'GET pull-request-records?limit=100&provider=gitlab&repoId=app&headBranch=feature',
      // Whose workspace it is, a task would tell.
      'GET tasks?all=true',
      'POST pull-request-records',
    ]);
  });

  it('whose record nobody here holds costs no list', async () => {
    await open();
    const body = { ...RECORD, identifier: '99', title: 'Elsewhere', headBranch: 'x', baseBranch: 'main' };
    const before = await newKey();
    await ask('POST', '/workspaces/current/pull-requests', body, before);
    await world.settled();
    await world.clock.advance(2 * MINUTE);
    expect(asked().filter((each) => each === 'GET pull-request-records?limit=100')).toEqual([]);
  });
});
