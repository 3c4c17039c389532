import { createHmac } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { verifyWorkspaceWebhook } from '../../../src/workspace-api/contract.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { startWebhookReceiver } from '../../support/fakes/webhook-receiver.ts';
import { NO_QUOTA, startWorkspaceService, type TestServiceOptions } from '../../support/fakes/workspace-service.ts';
import { expectRefused } from './general.ts';
import { ask, ID, isEmbedded, requestsTo, type Target, TIME, tokenOf, unique } from './target.ts';

/** Never resolves (RFC 6761), so that nothing leaves the machine. */
const NOWHERE = 'https://receiver.invalid/hook';
const MINUTE = 60_000;

const TYPES = `task.created task.updated document.created document.updated document.deleted
  work_item.created work_item.deleted pull_request.created pull_request.updated`.split(/\s+/);

export function describeWebhooks(held: { readonly it: Target }): void {
  const { call, create: post } = requestsTo(held);
  const list = async () => (await call('GET', '/webhooks')).body.webhooks as { webhookId: string }[];
  const create = async () => {
    const made = await post('/webhooks', { url: NOWHERE, events: ['document.deleted'] });
    onTestFinished(async () => {
      await call('DELETE', `/webhooks/${made.webhookId}`);
    });
    return made;
  };

  it('W65 201 with the subscription, its key and its secret, which no later answer shows', async () => {
    const { key, secret, ...shown } = await create();
    expect(shown).toEqual({
      webhookId: ID,
      workspaceId: held.it.workspaceId,
      url: NOWHERE,
      events: ['document.deleted'],
      active: true,
      createdAt: TIME,
      failures: 0,
      lastDelivery: null,
    });
    const listed = await call('GET', '/webhooks');
    expect(listed.body.webhooks).toContainEqual(shown);
    for (const shownOnce of [key, secret]) {
      expect(shownOnce.length).toBeGreaterThan(32);
      expect(listed.text).not.toContain(shownOnce);
    }
  });

  it('W65 204 ends one subscription; then it is unknown', async () => {
    const [{ webhookId }, other] = [await create(), await create()];
    expect((await call('DELETE', `/webhooks/${webhookId}`)).status).toBe(204);
    await expectRefused(call('DELETE', `/webhooks/${webhookId}`), 404);
    const ids = (await list()).map((one) => one.webhookId);
    expect([ids.includes(webhookId), ids.includes(other.webhookId)]).toEqual([false, true]);
  });

  it('W65 400 for an address or a type of event that cannot be', async () => {
    for (const body of [
      {},
      { url: 'ftp://example.com' },
      { url: 'https://user:pass@receiver.invalid/' },
      { url: NOWHERE, events: ['task.exploded'] },
    ])
      await expectRefused(call('POST', '/webhooks', body), 400);
  });

  it('W65 a workspace has at most 20 subscriptions', async () => {
    for (let n = (await list()).length; n < 20; n++) await create();
    await expectRefused(call('POST', '/webhooks', { url: NOWHERE }), 409, 'conflict');
  });

  it.runIf(isEmbedded)('W65 403 forbidden for a plain member', async () => {
    await expectRefused(call('GET', '/webhooks', undefined, { as: await tokenOf(held, 'member') }), 403);
  });
}

/** A service of its own, a receiver, and a subscription. */
async function subscribed(body: object = {}, options: TestServiceOptions = {}) {
  const clock = createTravellingClock();
  const receiver = await startWebhookReceiver();
  const running = await startWorkspaceService({ clock, quota: NO_QUOTA, ...options });
  onTestFinished(async () => {
    await receiver.close();
    await running.close();
  });
  const { call } = requestsTo({ it: { url: running.url, token: running.oauthToken } });
  const subscribe = async (given: object = {}) =>
    (await call('POST', '/webhooks', { url: `${receiver.url}/hook`, ...given })).body;
  const hook = await subscribe(body);
  const shown = async (webhookId = hook.webhookId) =>
    (await call('GET', '/webhooks')).body.webhooks.find((one: { webhookId: string }) => one.webhookId === webhookId);
  return {
    clock,
    receiver,
    running,
    call,
    hook,
    subscribe,
    shown,
    bug: async (title = unique('bug')) => (await call('POST', '/bugs', { title })).body,
    /** Waits for what the service commits after an answer came in. */
    async until(holds: (hook: ReturnType<JSON['parse']>) => boolean) {
      for (;;) {
        const now = await shown();
        if (holds(now)) return now;
        await setImmediate();
      }
    },
  };
}

export function describeDeliveries(): void {
  it('W64, W65 a CloudEvent by POST, with its headers, key and signature', async () => {
    const { receiver, hook, bug, call, running } = await subscribed();
    const task = await bug();
    const { path, headers, body, event } = (await receiver.count(1))[0]!;
    expect(path).toBe('/hook');
    expect(event).toEqual({
      specversion: '1.0',
      id: expect.stringMatching(/^evt_/),
      type: 'task.created',
      source: `/workspaces/${running.workspaceId}`,
      subject: `task/${task.taskId}`,
      time: '2026-01-05T09:00:00.000Z',
      datacontenttype: 'application/json',
      workspaceid: running.workspaceId,
      data: {
        resource: { type: 'task', id: task.taskId, key: task.key },
        actor: { type: 'user', id: running.userId },
        task,
      },
    });
    expect(headers).toMatchObject({
      'content-type': 'application/cloudevents+json',
      'x-service-event-id': event.id,
      'x-service-event-type': 'task.created',
      'x-service-retry-num': '0',
      'x-service-webhook-key': hook.key,
      'x-service-signature': `sha256=${createHmac('sha256', hook.secret).update(body).digest('hex')}`,
    });
    verifyWorkspaceWebhook(headers, body, { key: hook.key, secret: hook.secret });
    await call('POST', '/bugs', { title: 'by key' }, { as: running.apiKey });
    expect((await receiver.count(2))[1]!.event.data.actor).toEqual({ type: 'api_key', id: running.apiKeyId });
  });

  it('W65 the receiver can verify what it gets, and nothing else', async () => {
    const { receiver, hook, bug } = await subscribed();
    await bug();
    const { headers, body } = (await receiver.count(1))[0]!;
    const { secret, key } = hook;
    const check = (...given: Parameters<typeof verifyWorkspaceWebhook>) => {
      return () => verifyWorkspaceWebhook(...given);
    };
    const code = (name: string) => expect.objectContaining({ code: name });
    for (const proof of [{ secret }, { key }]) expect(check(headers, body, proof)).not.toThrow();
    const longer = Buffer.concat([body, Buffer.from(' ')]);
    expect(check(headers, longer, { secret })).toThrow(code('signature_mismatch'));
    expect(check(headers, body, { secret: 'other' })).toThrow(code('signature_mismatch'));
    expect(check(headers, body, { secret, key: 'other' })).toThrow(code('signature_mismatch'));
    expect(check({}, body, { secret })).toThrow(code('signature_missing'));
    const keyless = { ...headers, 'x-service-webhook-key': undefined };
    expect(check(keyless, body, { key })).toThrow(code('signature_missing'));
  });

  it('W64, W65 an event of every type, each with its resource as the API shows it, and in order', async () => {
    const { receiver, call, bug } = await subscribed();
    const task = await bug();
    await call('PUT', `/tasks/${task.taskId}`, { status: 'in_progress' });
    const document = (await call('POST', '/documents', { title: 'Plan', content: 'old', type: 'task' })).body;
    await call('PUT', `/documents/${document.documentId}`, { title: 'Plan', content: 'new' });
    await call('DELETE', `/documents/${document.documentId}`);
    const links = `/tasks/${task.taskId}/work-items`;
    const link = (await call('POST', links, { url: 'https://example.com/1' })).body;
    await call('DELETE', `${links}/${link.workItemId}`);
    const record = { provider: 'github', repoId: '1', identifier: '7', title: 'A', headBranch: 'a', baseBranch: 'b' };
    await call('POST', '/pull-requests', record);
    const edited = (await call('PATCH', '/pull-requests', { ...record, title: 'B' })).body;
    const events = (await receiver.count(TYPES.length)).map(({ event }) => event);
    expect(events.map(({ type }) => type)).toEqual(TYPES);
    expect(events[1].data).toMatchObject({ task: { taskId: task.taskId, status: 'in_progress' } });
    expect(events[3].data).toMatchObject({
      resource: { type: 'document', id: document.documentId },
      document: { documentId: document.documentId, excerpt: 'new' },
    });
    expect(events[6].data).toMatchObject({ resource: { type: 'work_item', taskId: task.taskId }, work_item: link });
    expect(events[8].data).toMatchObject({
      resource: { type: 'pull_request', id: 'github/1/7', provider: 'github', repoId: '1', identifier: '7' },
      pull_request: edited,
    });
    expect(new Set(events.map(({ id }) => id)).size).toBe(TYPES.length);
  });

  it('W65 one retry at once, then after 1 and 5 minutes, then it stops; the id stays the same', async () => {
    const { receiver, bug, clock, shown, until } = await subscribed();
    receiver.answer(500);
    await bug();
    await receiver.count(2);
    await until((hook) => hook.lastDelivery?.retryNum === 1);
    await clock.advance(MINUTE - 1);
    expect(receiver.received).toHaveLength(2);
    await clock.advance(1);
    await receiver.count(3);
    await until((hook) => hook.lastDelivery.retryNum === 2);
    await clock.advance(5 * MINUTE - 1);
    expect(receiver.received).toHaveLength(3);
    await clock.advance(1);
    const received = await receiver.count(4);
    expect(received.map(({ headers }) => headers['x-service-retry-num'])).toEqual(['0', '1', '2', '3']);
    expect(new Set(received.map(({ body }) => body.toString())).size).toBe(1);
    const stopped = await until((hook) => hook.failures === 1);
    expect(stopped.lastDelivery).toMatchObject({ retryNum: 3, status: 500, error: 'refused', type: 'task.created' });
    await clock.advance(60 * MINUTE);
    expect(receiver.received).toHaveLength(4);
    receiver.answer(204);
    await bug('after the trouble');
    await receiver.count(5);
    await until((hook) => hook.lastDelivery.status === 204);
    expect(await shown()).toMatchObject({ active: true, failures: 1, lastDelivery: { retryNum: 0, error: null } });
  });

  it('W65 a receiver that redirects, or does not answer within 3 s, is tried again', async () => {
    const { receiver, bug, until } = await subscribed();
    for (const [before, first] of [302, 'silent' as const].entries()) {
      receiver.answer(first, 204);
      await bug();
      const received = await receiver.count(2 * before + 2);
      expect(received.map(({ path }) => path)).toEqual(received.map(() => '/hook'));
      await until(
        ({ lastDelivery }) => lastDelivery?.status === 204 && lastDelivery.eventId === received.at(-1)?.event.id,
      );
    }
  });

  it('W65 410 ends a subscription', async () => {
    const { receiver, bug, until } = await subscribed();
    receiver.answer(410);
    await bug();
    expect((await until((hook) => !hook.active)).lastDelivery).toMatchObject({ status: 410 });
    await bug();
    expect(receiver.received).toHaveLength(1);
  });

  it('one receiver that fails holds up no other', async () => {
    const { receiver, bug, subscribe } = await subscribed();
    const other = await startWebhookReceiver();
    onTestFinished(() => other.close());
    await subscribe({ url: other.url });
    receiver.answer('silent');
    for (const title of ['1', '2', '3']) await bug(title);
    const received = await other.count(3);
    expect(received.map(({ event }) => event.data.task.title)).toEqual(['1', '2', '3']);
  });

  it('what waits is delivered after a restart, with the same id', async () => {
    const { receiver, bug, running, until, clock } = await subscribed();
    receiver.answer(500, 500, 204);
    await bug();
    await receiver.count(2);
    await until((hook) => hook.lastDelivery?.retryNum === 1);
    await running.service.close();
    clock.jumpWall(MINUTE);
    const again = await startWorkspaceService({ clock, quota: NO_QUOTA, file: running.file });
    onTestFinished(() => again.close());
    const received = await receiver.count(3);
    expect(new Set(received.map(({ event }) => event.id)).size).toBe(1);
    expect(received.map(({ headers }) => headers['x-service-retry-num'])).toEqual(['0', '1', '2']);
  });

  describe('private addresses', () => {
    it('400 for each of them unless they are allowed', async () => {
      const { call } = await subscribed({}, { allowPrivateWebhooks: false });
      const addresses =
        '127.0.0.1:9 localhost:9 api.localhost 2130706433 0x7f.1 [::1] [::ffff:10.0.0.1] 10.1.2.3 172.31.0.1 192.168.1.1 169.254.169.254/latest/meta-data 100.64.0.1 [fd00::1] [fe80::1] 0.0.0.0';
      for (const address of addresses.split(' '))
        await expectRefused(call('POST', '/webhooks', { url: `http://${address}/` }), 400);
    });

    it('what a name resolves to is refused when it is called: nothing is sent', async () => {
      const { receiver, running, clock, hook } = await subscribed();
      await running.service.close();
      // The subscription was made while it was allowed, as one whose name points elsewhere since.
      const strict = { clock, quota: NO_QUOTA, file: running.file, allowPrivateWebhooks: false };
      const again = await startWorkspaceService(strict);
      onTestFinished(() => again.close());
      const server = { url: again.url, token: again.oauthToken };
      await ask(server, 'POST', '/workspaces/current/bugs', { body: { title: 'x' } });
      const lastDelivery = async () => {
        const { webhooks } = (await ask(server, 'GET', '/workspaces/current/webhooks')).body;
        return webhooks.find((one: { webhookId: string }) => one.webhookId === hook.webhookId).lastDelivery;
      };
      while ((await lastDelivery())?.retryNum !== 1) await setImmediate();
      expect(await lastDelivery()).toMatchObject({ status: null, error: 'address_blocked' });
      expect(receiver.received).toHaveLength(0);
    });
  });
}
