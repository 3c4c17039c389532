import { describe, expect, test } from 'vitest';
import type { PollPage } from '../../../../src/connectors/connector.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import type { Store } from '../../../../src/store/database.ts';
import { walkUnit } from '../../../../src/sync/intake/poll-walk.ts';
import { remainsOf } from '../../../support/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/intake.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const PAGE: PollPage = { outcome: 'page', event: 'list', body: Buffer.from('one'), newest: '2026-01-05T08:00:00Z' };

/** @param onPoll called while a page is read; it may replace it */
function walker(store: Store, onPoll: (page: PollPage) => PollPage = (page) => page, version = () => 0) {
  const pages: (string | undefined)[] = [];
  const names = { version } as NonNullable<ReturnType<typeof activeWith>['names']>;
  const active = activeWith({
    connection: {
      async poll({ page }) {
        pages.push(page);
        return onPoll(PAGE);
      },
    },
  });
  let rings = 0;
  const inbox = { ...createWakeSignal(), notify: () => void rings++ };
  const deps = { store, clock: createTravellingClock(), random: systemRandom(), inbox };
  const walk = (signal = new AbortController().signal) => walkUnit(deps, { ...active, names }, 'unit', signal);
  return { walk, pages, rings: () => rings };
}

const watermarks = async ({ query }: Store) =>
  (await query.selectFrom('polls').select('watermark').execute()).map(({ watermark }) => watermark);

describe('a walk without an end', () => {
  const endless = (store: Store, nameOf: (count: number) => string, isEmpty = false) => {
    let count = 0;
    return walker(
      store,
      (page) => ({ ...page, body: Buffer.from(`page ${count}`), next: nameOf(count++), isEmpty }) as PollPage,
    );
  };

  test.each([1, 2, 3, 7, 100])(
    'over a circle of %i pages ends with an error, and its pages are kept',
    async (length) => {
      const store = await openTestStore();
      const { walk, pages } = endless(store, (count) => `token-${count % length}`);
      await expect(walk()).rejects.toMatchObject({ code: 'list_endless' });
      expect(pages.length).toBeLessThanOrEqual(3 * length + 2);
      expect(await inboxOf(store)).toHaveLength(pages.length);
      expect(await watermarks(store)).toEqual([null]);
      const before = pages.length;
      await expect(walk()).rejects.toMatchObject({ code: 'list_endless' });
      expect(pages[before]).toBeUndefined();
    },
  );

  test('over empty pages with new names stops after 100, and goes on there', async () => {
    const store = await openTestStore();
    const { walk, pages } = endless(store, (count) => `token-${count}`, true);
    await expect(walk()).rejects.toMatchObject({ code: 'list_endless' });
    expect(pages).toHaveLength(100);
    await expect(walk()).rejects.toMatchObject({ code: 'list_endless' });
    expect(pages).toHaveLength(200);
    expect(pages[100]).toBe('token-99');
  });
});

describe('a page that was read', () => {
  test('is stored with the position after it, or neither is', async () => {
    expect(await remainsOf(async (store) => walker(store).walk)).toEqual([]);
  });

  test('is not stored where any statement fails, and whoever walks is told', async () => {
    expect(await wrongWhereStatementsFail(async (store) => walker(store).walk)).toEqual([]);
  });

  test('is stored once where the walk ends after it, and the inbox is told', async () => {
    const store = await openTestStore();
    const { walk, rings } = walker(store);
    expect(await walk()).toBe('complete');
    expect((await inboxOf(store)).map(({ body }) => body)).toEqual(['one']);
    expect(rings()).toBe(1);
  });

  test('and was unchanged leaves nothing but the time, and rings for nobody', async () => {
    const store = await openTestStore();
    const { walk, rings } = walker(store, () => ({ outcome: 'unchanged' }));
    expect(await walk()).toBe('unchanged');
    expect([await inboxOf(store), rings()]).toEqual([[], 0]);
    const [row] = await store.query.selectFrom('polls').select('completed_at').execute();
    expect(row?.completed_at).not.toBeNull();
  });

  test('while a name was bound anew is forgotten, with its position, and read once more', async () => {
    const store = await openTestStore();
    let version = 0;
    let polls = 0;
    const bindsAnew = (page: PollPage): PollPage => {
      polls++;
      if (polls > 1) return page;
      version++;
      return { ...page, newest: '2026-01-09T08:00:00Z', body: Buffer.from('of another thing') } as PollPage;
    };
    const { walk, pages } = walker(store, bindsAnew, () => version);
    await walk();
    expect(pages).toEqual([undefined, undefined]);
    expect((await inboxOf(store)).map(({ body }) => body)).toEqual(['one']);
    expect(await watermarks(store)).toEqual(['2026-01-05T08:00:00Z']);
  });

  test('is stored also where the walk is to end now, which goes no further', async () => {
    const store = await openTestStore();
    const stopping = new AbortController();
    const { walk, pages } = walker(store, (page) => {
      stopping.abort(new Error('stopping'));
      return { ...page, next: '2' } as PollPage;
    });
    await expect(walk(stopping.signal)).rejects.toThrow('stopping');
    expect(pages).toEqual([undefined]);
    expect(await inboxOf(store)).toHaveLength(1);
  });
});
