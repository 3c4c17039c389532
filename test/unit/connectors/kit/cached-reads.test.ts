import { describe, expect, it } from 'vitest';
import { createListing, createMemory } from '../../../../src/connectors/kit/cached-reads.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

const { signal } = new AbortController();
const MINUTE = 60_000;

describe('a listing', () => {
  it('is read again only when it is old', async () => {
    const clock = createTravellingClock();
    let reads = 0;
    const list = createListing(clock, async () => [`read ${++reads}`]);
    expect(await list(signal)).toEqual(['read 1']);
    await clock.advance(9 * MINUTE);
    expect(await list(signal)).toEqual(['read 1']);
    await clock.advance(6 * MINUTE);
    expect(await list(signal)).toEqual(['read 2']);
  });

  it('returns the old list after a temporary failure, and is read again by the next call', async () => {
    const clock = createTravellingClock();
    const answers: (string | SyncError)[] = ['one', new SyncError('server_failed', 'down'), 'two'];
    const list = createListing(clock, async () => {
      const answer = answers.shift();
      if (typeof answer !== 'string') throw answer;
      return [answer];
    });
    await list(signal);
    await clock.advance(20 * MINUTE);
    expect(await list(signal)).toEqual(['one']);
    expect(await list(signal)).toEqual(['two']);
  });

  it('throws if it was never read, or may no longer be read', async () => {
    const clock = createTravellingClock();
    const codes: ('server_failed' | 'forbidden' | undefined)[] = ['server_failed', undefined, 'forbidden'];
    const list = createListing(clock, async () => {
      const code = codes.shift();
      if (code) throw new SyncError(code, 'no');
      return ['one'];
    });
    await expect(list(signal)).rejects.toMatchObject({ code: 'server_failed' });
    await list(signal);
    await clock.advance(20 * MINUTE);
    await expect(list(signal)).rejects.toMatchObject({ code: 'forbidden' });
  });
});

describe('the memory of pages', () => {
  const answer = (status: number, body = '', etag?: string) => ({
    status,
    headers: (etag === undefined ? {} : { etag }) as Record<string, string>,
    body: Buffer.from(body),
  });
  const text = ({ body }: { body: Buffer }) => body.toString();

  it('sends the validator of the same address, and returns the earlier page on a 304', async () => {
    const memory = createMemory<string>();
    const sent: (string | undefined)[] = [];
    const reply = (given: ReturnType<typeof answer>) => async (etag: string | undefined) => {
      sent.push(etag);
      return given;
    };
    expect(await memory.read('/a', reply(answer(200, 'first', '"1"')), text)).toBe('first');
    expect(await memory.read('/b', reply(answer(200, 'other')), text)).toBe('other');
    expect(await memory.read('/a', reply(answer(304)), text)).toBe('first');
    expect(await memory.read('/a', reply(answer(200, 'second')), text)).toBe('second');
    await memory.read('/a', reply(answer(200, 'third')), text);
    expect(sent).toEqual([undefined, undefined, '"1"', '"1"', undefined]);
  });
});
