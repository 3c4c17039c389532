import { describe, expect, it } from 'vitest';
import { createListing, createMemory } from '../../../../src/connectors/kit/cached-reads.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const { signal } = new AbortController();
const MINUTE = 60_000;

describe('a listing', () => {
  it('is read once, and again when it is old', async () => {
    const clock = createTravellingClock();
    let reads = 0;
    const list = createListing(clock, async () => [`read ${++reads}`]);
    expect(await list(signal)).toEqual(['read 1']);
    await clock.advance(9 * MINUTE);
    expect(await list(signal)).toEqual(['read 1']);
    await clock.advance(6 * MINUTE);
    expect(await list(signal)).toEqual(['read 2']);
  });

  it('stays after a passing failure, and is read again the next time', async () => {
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

  it('throws when it was never read, or may no longer be read', async () => {
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

  it('asks with the validator of the same place, and on a 304 resolves with the earlier page', async () => {
    const memory = createMemory<string>();
    const asked: (string | undefined)[] = [];
    const ask = (told: ReturnType<typeof answer>) => async (etag: string | undefined) => {
      asked.push(etag);
      return told;
    };
    expect(await memory.read('/a', ask(answer(200, 'first', '"1"')), text)).toBe('first');
    expect(await memory.read('/b', ask(answer(200, 'other')), text)).toBe('other');
    expect(await memory.read('/a', ask(answer(304)), text)).toBe('first');
    expect(await memory.read('/a', ask(answer(200, 'second')), text)).toBe('second');
    await memory.read('/a', ask(answer(200, 'third')), text);
    expect(asked).toEqual([undefined, undefined, '"1"', '"1"', undefined]);
  });
});
