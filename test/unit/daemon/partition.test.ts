import { describe, expect, it, test } from 'vitest';
import { stringify } from 'yaml';
import { connectors } from '../../../src/connectors/registry.ts';
import { rulesOf } from '../../../src/daemon/sources.ts';
import { readConfigText } from '../../../src/platform/config/load.ts';
import type { HttpRequest } from '../../../src/platform/http/http-client.ts';
import { gatewaySend } from '../../../src/sync/outbox/sender.ts';
import { apiOverrides } from '../../../src/workspace-api/contract.ts';
import { piecesOf } from '../../support/rows/canaries.ts';

const CODE = {
  connector: 'github',
  token: 'a-token',
  webhookSecrets: 'a secret for tests only',
  repositories: ['acme/app'],
};
const CONFIG = {
  workspace: { url: 'https://app.example.com', apiKey: 'a-key' },
  users: { github: { ann: 'u1' } },
  connections: { code: CODE },
};

function digestOf(changed: object): string | undefined {
  const config = readConfigText(stringify({ ...CONFIG, ...changed }), { connectors, apiOverrides }, 'test.yaml');
  return rulesOf(config, 'https://app.example.com', connectors).digest;
}

const withCode = (changed: object) => ({ connections: { code: { ...CODE, ...changed } } });

test.each<[what: string, changed: object]>([
  ['a user', { users: {} }],
  ['a field of new tasks', { triage: { send: ['labels'] } }],
  ['the name of a connection', { connections: { other: CODE } }],
  ['comments', withCode({ writeBack: { comment: true } })],
  ['commit statuses', withCode({ writeBack: { status: 'require' } })],
])('re-evaluates all changes after %s changed', (_what, changed) => {
  expect(digestOf({})).toBe(digestOf({}));
  expect(digestOf(changed)).not.toBe(digestOf({}));
});

const KEY = 'wsk_Vd7f9CngpQ2x.Lm0+Zt5uRk8YbW3hJ1sEaNo';
const bytes = (text: string) => Buffer.from(text);

/** The answer that a caller gets from a workspace that repeats the credential it received. @param authorization the caller's own */
async function answerTo(repeat: (sent: string) => Buffer, authorization?: string) {
  const request = async ({ headers }: HttpRequest) => {
    const sent = headers?.['authorization'] ?? '';
    return { status: 400, headers: { etag: `"${sent}"` }, body: repeat(sent) };
  };
  const endpoint = {
    http: { request, close: async () => undefined },
    baseUrl: 'http://workspace.test',
    apiKey: () => KEY,
    api: {},
    cut: new AbortController().signal,
  };
  const send = gatewaySend(endpoint, async (_context, exchange) => ({ ...(await exchange()), sentAt: 0, asOf: 0 }));
  const { headers, body } = await send(
    {
      method: 'GET',
      path: '/tasks',
      query: '',
      headers: {},
      caller: 'token gwt_1',
      ...(authorization && { authorization }),
    },
    new AbortController().signal,
  );
  return { headers, body };
}

const pieces = (text: Buffer) => [...piecesOf([['key', KEY]])(text).values()];
const NOT_TEXT = Buffer.from([0xff, 0xfe, 0x00, 0x80]);
/** Bytes of an answer that are searched at once. */
const CHUNK = 1_048_576;
const LONG = Buffer.alloc(2.5 * CHUNK, 'x');
const ENCODED: Readonly<Record<string, (sent: string) => string>> = {
  'as it is': (sent) => sent,
  'in JSON': (sent) => JSON.stringify({ message: JSON.stringify({ sent }) }),
  'in base64': (sent) => bytes(sent).toString('base64'),
  'in hexadecimal': (sent) => bytes(sent).toString('hex'),
};

describe('gatewaySend, for a caller with a gateway token,', () => {
  it.each([
    ...Object.entries(ENCODED).map(([how, encoded]) => [how, (sent: string) => bytes(encoded(sent))] as const),
    ['in an address', (sent: string) => bytes(encodeURIComponent(sent))] as const,
    ['between bytes that are not text', (sent: string) => Buffer.concat([NOT_TEXT, bytes(sent), NOT_TEXT])] as const,
    ['twice in a long answer', (sent: string) => Buffer.concat([LONG, bytes(sent), LONG, bytes(sent)])] as const,
  ])('removes every part of the daemon key that the workspace repeats %s', async (_how, repeat) => {
    const { headers, body } = await answerTo(repeat);
    expect([pieces(body), pieces(bytes(headers['etag'] ?? ''))]).toEqual([[], []]);
  });

  it.each(Object.entries(ENCODED))(
    'removes the key at the borders of chunks of a long answer, %s',
    async (_how, encoded) => {
      const text = bytes(encoded(`Bearer ${KEY}`));
      const places = [CHUNK - text.length / 2, 2 * CHUNK - 1].map(Math.floor);
      const answer = Buffer.from(LONG);
      for (const place of places) text.copy(answer, place);
      expect(pieces((await answerTo(() => answer)).body)).toEqual([]);
    },
  );
});

it('returns the key of a caller who sent their own', async () => {
  const { body } = await answerTo(bytes, `Bearer ${KEY}`);
  expect(body.toString()).toBe(`Bearer ${KEY}`);
});
