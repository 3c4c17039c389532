import { expect, test } from 'vitest';
import type { Known } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { PullRequestPhase } from '../../../../src/model/workflow.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { purposeNow } from '../../../../src/platform/lib/purpose.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import { blankEntity, saveEntity } from '../../../../src/store/entities.ts';
import { saveItem } from '../../../../src/store/items.ts';
import { createPauses } from '../../../../src/sync/intake/pauses.ts';
import { reviewJobs } from '../../../../src/sync/intake/review-reads.ts';
import { needsReviews } from '../../../../src/sync/reconcile/workflow/workflow-rules.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { createForge, forgeItem } from '../../../support/fakes/forge.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { itemRow } from '../../../support/rows/items.ts';

interface Stored {
  readonly number: number;
  readonly state?: 'open' | 'merged';
  readonly isLinked?: boolean;
  readonly reviewsReadAt?: number;
  readonly connection?: string;
}

/** Stores pull requests that changed at 5. @param fetch throws the vendor's error */
async function reading(items: readonly Stored[], fetch: (number: string) => void = () => undefined) {
  const store = await openTestStore();
  const clock = createTravellingClock();
  for (const { number, state = 'open', isLinked = true, reviewsReadAt, connection = 'forge' } of items) {
    const read = reviewsReadAt === undefined ? {} : { reviewsReadAt };
    const item = { ...forgeItem('app', { number, title: '', state, updatedAt: 5 }), ...read };
    const row = { connection, kind: 'pull_request', finished: state === 'open' ? 0 : 1 } as const;
    await saveItem(store.query, itemRow(item.key, { ...row, fields: JSON.stringify({ item, older: {} }) }), 1);
    const link = blankEntity(`link:${number}`, 'link', { task_id: 't1', item_key: item.key });
    if (isLinked) await saveEntity(store.query, link);
  }
  const { connector } = createForge({ app: [] });
  const requested: { number: string; known: Known | undefined; purpose: string | undefined }[] = [];
  const connection = {
    ...connector.connect({}, {} as never),
    async fetch({ key }: { readonly key: string }, _: AbortSignal, known?: Known) {
      const number = key.split(':').at(-1) ?? '';
      requested.push({ number, known, purpose: purposeNow() });
      fetch(number);
      return { event: 'item', body: Buffer.from(number) };
    },
  };
  const context = { store, clock, random: systemRandom(), logger: silentLogger, inbox: createWakeSignal() };
  const connections = [{ ...activeWith({ name: 'forge', connector, connection }), readsReviews: true }];
  const jobs = reviewJobs({ ...context, pauses: createPauses(clock), connections });
  return { store, clock, requested, jobs };
}

test('reads the reviews of linked open pull requests that changed since the last read, once an hour', async () => {
  const { store, clock, requested, jobs } = await reading([
    { number: 1 },
    { number: 2, reviewsReadAt: 4 },
    { number: 3, reviewsReadAt: 5 },
    { number: 4, isLinked: false },
    { number: 5, state: 'merged' },
    { number: 6, connection: 'other' },
  ]);
  expect(jobs.map(({ name, when }) => [name, when])).toEqual([['reviews.forge', { everyMs: 3_600_000 }]]);
  const run = jobs[0]?.run(new AbortController().signal);
  await clock.advance(60_000);
  await run;
  const read = { known: { wantsReviews: true }, purpose: 'poll' };
  expect(requested).toEqual([
    { number: '1', ...read },
    { number: '2', ...read },
  ]);
  expect((await inboxOf(store)).map(({ source, body }) => [source, body])).toEqual([
    ['fetch', '1'],
    ['fetch', '2'],
  ]);
});

test('goes on with the next one if the vendor refuses one', async () => {
  const { clock, requested, jobs } = await reading([{ number: 1 }, { number: 2 }], (number) => {
    if (number === '1') throw new SyncError('forbidden', 'no');
  });
  const run = jobs[0]?.run(new AbortController().signal);
  await clock.advance(60_000);
  await run;
  expect(requested.map(({ number }) => number)).toEqual(['1', '2']);
});

test('is needed by the preset and by rules about reviews only', () => {
  const about = (...pullRequest: PullRequestPhase[]) => [{ when: { pullRequest }, set: {} }];
  expect(needsReviews({ preset: 'standard', rules: [] })).toBe(true);
  expect(needsReviews({ rules: about('merged', 'approved') })).toBe(true);
  expect(
    needsReviews({ rules: [...about('merged', 'draft', 'open'), { when: { workItem: ['completed'] }, set: {} }] }),
  ).toBe(false);
});
