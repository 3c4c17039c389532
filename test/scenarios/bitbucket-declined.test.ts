import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';

type Json = Readonly<Record<string, unknown>>;

const event = JSON.parse(
  readFileSync(new URL('../../src/connectors/bitbucket/fixtures/pullrequest.created.json', import.meta.url), 'utf8'),
) as Json;
/** Its texts name no task: keys that are not known yet would be looked for, and this is about the record alone. */
const whole: Json = {
  ...(event['pullrequest'] as Json),
  description: 'Errors get a type.',
  source: { branch: { name: 'problem-details' }, commit: { hash: '4f1d2c3b5a69' }, repository: null },
};

let world: World;
let second = 0;
afterEach(() => world.close());

async function open(): Promise<void> {
  second = 0;
  world = await createWorld({
    config: {
      connections: {
        bitbucket: {
          connector: 'bitbucket',
          repositories: ['acme/api'],
          webhookSecrets: WEBHOOK_SECRET,
          poll: 'off',
        },
      },
    },
  });
}

/** A signed delivery about pull request 12, a second after the one before. */
async function deliver(key: string, fields: Json): Promise<string> {
  const updated_on = new Date(Date.UTC(2026, 0, 5, 8, 0, ++second)).toISOString().replace('Z', '001+00:00');
  const body = JSON.stringify({ ...event, pullrequest: { ...whole, updated_on, ...fields } });
  await post(key, body);
  await world.settled();
  await world.clock.advance(60_000);
  return body;
}

async function post(key: string, body: string): Promise<void> {
  const signature = `sha256=${createHmac('sha256', WEBHOOK_SECRET).update(body).digest('hex')}`;
  const answer = await fetch(`${world.daemon().address}/webhooks/test/bitbucket`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-event-key': key, 'x-hub-signature': signature },
    body,
  });
  expect(answer.status).toBe(202);
}

async function records() {
  return (await world.people.listPullRequests({ query: {} }, {})).body.pullRequests;
}

const sent = async () => (await world.requests()).received;

describe('a pull request of Bitbucket', () => {
  it('is recorded with its reviewers by UUID, and without labels and assignees', async () => {
    await open();
    await deliver('pullrequest:created', { title: 'Answer with problem details' });
    const [record] = await records();
    expect(record).toMatchObject({
      provider: 'bitbucket',
      repoId: '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}',
      identifier: '12',
      state: 'open',
      reviewers: ['{b2c0ffee-0002-4a5b-8c9d-000000000002}', '{c3c0ffee-0003-4a5b-8c9d-000000000003}'],
    });
    for (const field of ['labels', 'assignees'] as const) expect(record?.[field] ?? []).toEqual([]);
  });

  it.each(['DECLINED', 'SUPERSEDED'])('that is %s is final: nothing more is sent, whatever comes', async (state) => {
    await open();
    await deliver('pullrequest:created', { title: 'Answer with problem details' });
    const rejected = await deliver('pullrequest:rejected', { title: 'Answer with problem details', state });
    expect(await records()).toMatchObject([{ state: 'declined', title: 'Answer with problem details' }]);
    const before = await sent();
    await deliver('pullrequest:comment_created', { title: 'Renamed after the end', state });
    await deliver('pullrequest:updated', { title: 'As if it were open', state: 'OPEN' });
    await post('pullrequest:rejected', rejected);
    await world.settled();
    await world.restart();
    await world.settled();
    expect(await sent()).toBe(before);
    expect(await records()).toMatchObject([{ state: 'declined', title: 'Answer with problem details' }]);
  });

  it('that was sent again after a failure is one delivery', async () => {
    await open();
    const body = await deliver('pullrequest:created', { title: 'Answer with problem details' });
    const before = (await world.partition().status()).deliveries;
    await post('pullrequest:created', body);
    expect((await world.partition().status()).deliveries).toEqual(before);
  });
});
