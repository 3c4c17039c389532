import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { gitlab } from '../../../../src/connectors/gitlab/index.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';

const KEY = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const OTHER_KEY = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
const TOKEN = 'a-secret-token';
const NOW = Date.UTC(2026, 0, 5, 9);
const body = Buffer.from('{"object_kind":"merge_request"}');
const event = { 'x-gitlab-event': 'Merge Request Hook' };

function digest(key: string, id: string, sentAt: number): string {
  const bytes = Buffer.from(key.slice('whsec_'.length), 'base64');
  return createHmac('sha256', bytes).update(`${id}.${sentAt}.`).update(body).digest('base64');
}

function signed({ key = KEY, id = 'id-1', at = NOW } = {}) {
  const sentAt = Math.floor(at / 1_000);
  const signature = `v1,${digest(key, id, sentAt)}`;
  return { ...event, 'webhook-id': id, 'webhook-timestamp': String(sentAt), 'webhook-signature': signature };
}

type Headers = Record<string, string | string[] | undefined>;
const verify = (headers: Headers, secrets: readonly string[], now = NOW) =>
  gitlab.verify({ headers, body }, secrets, now);
const refused = async (headers: Headers, secrets: readonly string[], now = NOW) => {
  const thrown: unknown = await verify(headers, secrets, now).catch((error: unknown) => error);
  return thrown instanceof SyncError ? thrown.code : thrown;
};

describe('a signature', () => {
  it('may stand beside others, of other keys and other versions', async () => {
    const good = signed();
    const others = signed({ key: OTHER_KEY })['webhook-signature'];
    for (const signatures of [
      `${others} ${good['webhook-signature']}`,
      `${good['webhook-signature']} v1a,${'A'.repeat(88)}`,
    ])
      await expect(verify({ ...good, 'webhook-signature': signatures }, [KEY])).resolves.toEqual({
        event: 'Merge Request Hook',
        deliveryId: 'id-1',
      });
  });

  it.each([
    [0, true],
    [-300_000, true],
    [300_000, true],
    [-301_000, false],
    [301_000, false],
    [-86_400_000, false],
  ])('sent %i ms from now is taken: %s', async (offset, isTaken) => {
    const result = await verify(signed({ at: NOW + offset }), [KEY]).then(
      () => true,
      () => false,
    );
    expect(result).toBe(isTaken);
  });

  it('counts alone, whether the token is right or wrong', async () => {
    const wrong = signed({ key: OTHER_KEY });
    expect(await refused({ ...wrong, 'x-gitlab-token': TOKEN }, [KEY, TOKEN])).toBe('signature_mismatch');
    expect(await refused({ ...signed(), 'x-gitlab-token': TOKEN }, [TOKEN])).toBe('signature_mismatch');
    expect(await refused({ ...event, 'webhook-signature': '', 'x-gitlab-token': TOKEN }, [TOKEN])).toBe(
      'signature_mismatch',
    );
    await expect(verify({ ...signed(), 'x-gitlab-token': 'wrong' }, [KEY])).resolves.toBeDefined();
  });

  it.each(['whsec_', 'whsec_AA==', 'whsec_not base64', `whsec_${'A'.repeat(28)}`])(
    'made with the weak key %j proves nothing',
    async (key) => {
      expect(await refused(signed({ key }), [key])).toBe('signature_mismatch');
    },
  );

  it('names the remedy if no secret is a signing token', async () => {
    await expect(verify(signed(), [TOKEN])).rejects.toMatchObject({ hint: expect.stringContaining('whsec_') });
  });

  it('takes the id of the delivery from the signed headers', async () => {
    const verified = await verify({ ...signed(), 'idempotency-key': 'forged' }, [KEY]);
    expect(verified.deliveryId).toBe('id-1');
  });
});

describe('a token', () => {
  const given = { ...event, 'x-gitlab-token': TOKEN };

  it('is accepted as one of two secrets, and the idempotency key names the delivery', async () => {
    await expect(verify({ ...given, 'idempotency-key': 'k-1' }, ['another', TOKEN])).resolves.toEqual({
      event: 'Merge Request Hook',
      deliveryId: 'k-1',
    });
  });

  it.each([[{}], [{ 'idempotency-key': '../../../x' }], [{ 'x-gitlab-webhook-uuid': 'fresh-each-time' }]])(
    'with %j leaves the delivery without a name',
    async (headers) => {
      expect(await verify({ ...given, ...headers }, [TOKEN])).toEqual({ event: 'Merge Request Hook' });
    },
  );

  it.each([['A-secret-token'], ['a-secret-token '], ['a-secret'], [''], [KEY]])('%j is refused', async (token) => {
    expect(await refused({ ...event, 'x-gitlab-token': token }, [TOKEN, KEY])).toBe('signature_mismatch');
  });

  it('that is repeated is refused, and one that is absent is reported as missing', async () => {
    expect(await refused({ ...event, 'x-gitlab-token': [TOKEN, TOKEN] }, [TOKEN])).toBe('signature_mismatch');
    expect(await refused(event, [TOKEN])).toBe('signature_missing');
  });
});

describe('the event', () => {
  it.each(['Merge Request Hook', 'Note Hook', 'Confidential Issue Hook', 'System Hook', 'Something New Hook'])(
    '%s is taken',
    async (name) => {
      const verified = await verify({ 'x-gitlab-event': name, 'x-gitlab-token': TOKEN }, [TOKEN]);
      expect(verified.event).toBe(name);
    },
  );

  it.each([undefined, '', 'Hook', 'merge_request', 'A\nB Hook', ['Note Hook']])('%j is not', async (name) => {
    expect(await refused({ 'x-gitlab-event': name, 'x-gitlab-token': TOKEN }, [TOKEN])).toBe('delivery_malformed');
  });
});
