import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { gitlab } from '../../../../src/connectors/gitlab/index.ts';
import { activeWith, inboxOf, openEndpoint, openTestStore } from '../../../support/harness/intake.ts';

const KEY = Buffer.alloc(32, 7);
const body = readFileSync(
  new URL('../../../../src/connectors/gitlab/fixtures/merge_request.open.json', import.meta.url),
);
const PATH = '/webhooks/main/gitlab';
const TOKEN = 'the-token-of-before';

function signed(id: string, now: number): Record<string, string> {
  const sentAt = Math.floor(now / 1_000);
  const digest = createHmac('sha256', KEY).update(`${id}.${sentAt}.`).update(body).digest('base64');
  return {
    'x-gitlab-event': 'Merge Request Hook',
    'webhook-id': id,
    'webhook-timestamp': String(sentAt),
    'webhook-signature': `v1,${digest}`,
  };
}

async function open() {
  const store = await openTestStore();
  const secrets = [TOKEN, `whsec_${KEY.toString('base64')}`];
  const active = activeWith({ name: 'gitlab', connector: { ...gitlab } as never, secrets });
  return { store, endpoint: await openEndpoint(store, [active]) };
}

it('a signed webhook is taken once, and no more when its signature is old', async () => {
  const { store, endpoint } = await open();
  const headers = signed('id-1', endpoint.clock.now());
  expect(await endpoint.post(PATH, body, headers)).toMatchObject({ status: 202, body: '{"delivery":"new"}' });
  expect(await endpoint.post(PATH, body, headers)).toMatchObject({ status: 202, body: '{"delivery":"repeated"}' });
  await endpoint.clock.advance(6 * 60_000);
  expect(await endpoint.post(PATH, body, headers)).toMatchObject({ status: 401 });
  // GitLab signs a repetition anew, with the same id.
  const again = signed('id-1', endpoint.clock.now());
  expect(await endpoint.post(PATH, body, again)).toMatchObject({ status: 202, body: '{"delivery":"repeated"}' });
  expect(await inboxOf(store)).toMatchObject([{ event: 'Merge Request Hook', body: body.toString() }]);
});

it('a webhook with the token is taken, also where the server names no delivery', async () => {
  const { store, endpoint } = await open();
  const headers = { 'x-gitlab-event': 'Merge Request Hook', 'x-gitlab-token': TOKEN };
  for (const outcome of ['new', 'repeated'])
    expect(await endpoint.post(PATH, body, headers)).toMatchObject({ status: 202, body: `{"delivery":"${outcome}"}` });
  expect(await endpoint.post(PATH, body, { ...headers, 'x-gitlab-token': 'another' })).toMatchObject({ status: 401 });
  expect(await inboxOf(store)).toHaveLength(1);
});
