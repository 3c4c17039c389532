import { describe, expect, it } from 'vitest';
import { forwardRequest } from '../../../src/daemon/workspace-send.ts';
import type { HttpRequest } from '../../../src/platform/http/http-client.ts';
import { piecesOf } from '../../support/canaries.ts';
import { createTravellingClock } from '../../support/travelling-clock.ts';

const KEY = 'wsk_Vd7f9CngpQ2x.Lm0+Zt5uRk8YbW3hJ1sEaNo';
const bytes = (text: string) => Buffer.from(text);

/** What a caller gets from a workspace that repeats what it was sent. @param authorization the caller's own */
async function passed(repeat: (sent: string) => Buffer, authorization?: string) {
  const request = async ({ headers }: HttpRequest) => {
    const sent = headers?.['authorization'] ?? '';
    return { status: 400, headers: { etag: `"${sent}"` }, body: repeat(sent) };
  };
  const pass = forwardRequest(
    {
      ...{ http: { request, close: async () => undefined }, baseUrl: 'http://workspace.test', workspaceId: 'current' },
      ...{ apiKey: () => KEY, api: {}, cut: new AbortController().signal, readLarge: async () => undefined as never },
    },
    createTravellingClock(),
    async (_context, send) => send(1),
  );
  const asked = { method: 'GET', path: '/tasks', query: '', headers: {}, caller: 'token gwt_1' } as const;
  const { headers, body } = await pass(
    { ...asked, ...(authorization && { authorization }) },
    new AbortController().signal,
  );
  return { headers, body };
}

const pieces = (text: Buffer) => [...piecesOf([['key', KEY]])(text).values()];
const NEVER_TEXT = Buffer.from([0xff, 0xfe, 0x00, 0x80]);
/** Answers are searched by so many bytes at a time. */
const PIECE = 1_048_576;
const LONG = Buffer.alloc(2.5 * PIECE, 'x');
const ENCODED: Readonly<Record<string, (sent: string) => string>> = {
  'as it is': (sent) => sent,
  'in JSON': (sent) => JSON.stringify({ message: JSON.stringify({ sent }) }),
  'in base64': (sent) => bytes(sent).toString('base64'),
  'in hexadecimal': (sent) => bytes(sent).toString('hex'),
};

describe('a caller with a token of ours', () => {
  it.each([
    ['as it is', (sent: string) => bytes(`you sent ${sent}`)],
    ['in JSON', (sent: string) => bytes(JSON.stringify({ message: JSON.stringify({ sent }) }))],
    ['in base64', (sent: string) => bytes(bytes(sent).toString('base64'))],
    ['in hexadecimal', (sent: string) => bytes(bytes(sent).toString('hex'))],
    ['in an address', (sent: string) => bytes(encodeURIComponent(sent))],
    ['amid bytes that are no text', (sent: string) => Buffer.concat([NEVER_TEXT, bytes(sent), NEVER_TEXT])],
    ['twice in a long answer', (sent: string) => Buffer.concat([LONG, bytes(sent), LONG, bytes(sent)])],
  ])('learns no piece of our key that the workspace repeats %s', async (_how, repeat) => {
    const { headers, body } = await passed(repeat);
    expect([pieces(body), pieces(bytes(headers['etag'] ?? ''))]).toEqual([[], []]);
  });

  it.each(Object.entries(ENCODED))(
    'learns no piece of it from a long answer, wherever it stands there, %s',
    async (_how, encoded) => {
      const text = bytes(encoded(`Bearer ${KEY}`));
      const places = [PIECE - text.length / 2, 2 * PIECE - 1].map(Math.floor);
      const answer = Buffer.from(LONG);
      for (const place of places) text.copy(answer, place);
      expect(pieces((await passed(() => answer)).body)).toEqual([]);
    },
  );

  it.each([
    ['text', bytes('{"title":"ä"}')],
    ['no text', NEVER_TEXT],
    ['long', LONG],
  ])('gets every other answer as it is: %s', async (_what, body) => {
    expect((await passed(() => body)).body).toEqual(body);
  });
});

it('a caller with a key of their own gets what they sent themselves', async () => {
  const { body } = await passed(bytes, `Bearer ${KEY}`);
  expect(body.toString()).toBe(`Bearer ${KEY}`);
});
