import { describe, expect, it } from 'vitest';
import type { Translation } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { LARGE } from '../../../../src/platform/lib/large.ts';
import type { Source, WorkerTranslator } from '../../../../src/sync/reconcile/context.ts';
import {
  partsOf,
  reasonOf,
  type Translated,
  translateAll,
  weightOf,
} from '../../../../src/sync/reconcile/translate-deliveries.ts';
import { answered, SOURCES, said, saidOf, TRACKER } from '../../../support/batches.ts';
import { openTestStore } from '../../../support/intake.ts';
import { pull, workItem } from '../../../support/items.ts';

const items = (count: number) => Array.from({ length: count }, (_, at) => workItem({ key: `jira:cloud-1:${at}` }));
const page = (count: number) => said(TRACKER, { outcome: 'items', items: items(count), references: [] });

describe('a delivery that tells of many items', () => {
  it.each<[count: number, parts: readonly number[]]>([
    [0, [0]],
    [1, [1]],
    [3, [3]],
    [4, [3, 1]],
    [6, [3, 3]],
    [7, [3, 3, 1]],
  ])('of %j is taken over in parts of three at most: %j', (count, expected) => {
    const parts = partsOf(page(count), 3);
    const told = parts.flatMap(({ translation }) => (translation?.outcome === 'items' ? [translation.items] : []));
    expect(told.map(({ length }) => length)).toEqual(expected);
    expect(told.flat()).toEqual(items(count));
    const last = parts.map(({ part }) => part?.isLast);
    expect(last).toEqual(expected.length === 1 ? [undefined] : expected.map((_, at) => at === expected.length - 1));
    expect(new Set(parts.map(({ part }) => part?.whole)).size).toBe(1);
  });

  it('tells of what else it carries once, with the first part', () => {
    const rejected = [{ content: 'c', body: Buffer.from(''), reason: 'much' }];
    const [first, second] = partsOf({ ...page(4), rejected }, 3);
    expect([first?.rejected, second?.rejected]).toEqual([rejected, undefined]);
    expect(first?.translation).toHaveProperty('references');
    expect(second?.translation).not.toHaveProperty('references');
  });
});

it.each<[what: string, weight: number, translated: Translated]>([
  ['an item', 1, saidOf(pull())],
  ['a page', 3, page(3)],
  ['an empty page', 1, page(0)],
  ['what is ignored', 1, said(TRACKER, { outcome: 'ignored', reason: 'no' })],
  ['a list of the workspace', 4, answered('saw-tasks', { tasks: [1, 2, 3] })],
  ['an answer without a body', 1, answered('compare-records', null)],
])('%s weighs %j', (_what, weight, translated) => {
  expect(weightOf(translated)).toBe(weight);
});

it('a reason is cut after 500 letters', () => {
  const reason = reasonOf(new SyncError('over_budget', 'x'.repeat(600)));
  expect([reason.length, reason.slice(0, 14)]).toEqual([500, 'over_budget: x']);
});

describe('where a body is read', () => {
  const NONE: Translation = { outcome: 'ignored', reason: 'here' };

  /** @returns what the delivery says */
  async function read(
    fields: Partial<Translated['delivery']>,
    aside: Partial<WorkerTranslator> = {},
    isSuspect = false,
  ) {
    const { query } = await openTestStore();
    const source: Source = {
      ...TRACKER,
      translate: () => NONE,
      aside: {
        translate: async () => ({ outcome: 'ignored', reason: 'aside' }),
        parts: async () => [],
        ...aside,
      },
    };
    const sources = new Map([...SOURCES, [TRACKER.connection, source]]);
    const delivery = { ...said(TRACKER, NONE).delivery, ...fields };
    const [translated] = await translateAll([delivery], { query, sources, isSuspect: () => isSuspect });
    const { translation, failure, rejected } = translated as Translated;
    return { told: translation?.outcome === 'ignored' ? translation.reason : translation?.outcome, failure, rejected };
  }

  it.each<[what: string, where: string, bytes: number, isSuspect?: boolean]>([
    ['one of a mebibyte', 'here', LARGE],
    ['a larger one', 'aside', LARGE + 1],
    ['a small one over which the process may have ended', 'aside', 1, true],
  ])('%s: %s', async (_what, where, bytes, isSuspect) => {
    expect((await read({ bytes }, {}, isSuspect)).told).toBe(where);
  });

  it('what no connection is configured for is a failure', async () => {
    expect((await read({ connection: 'gone' })).failure?.code).toBe('connection_unknown');
  });

  const tooMuch = async () => {
    throw new SyncError('over_budget', 'much');
  };
  const part = (content: string) => ({ content, body: Buffer.from(content) });

  it.each<[what: string, via: 'poll' | 'backfill' | 'webhook', parts: readonly string[], told: string | undefined]>([
    ['a page is read element by element', 'poll', ['a', 'b'], 'nothing of the page could be read'],
    ['so is one of a backfill', 'backfill', ['a', 'b'], 'nothing of the page could be read'],
    ['a page of one element is not', 'poll', ['a'], undefined],
    ['nor is what a webhook brought', 'webhook', ['a', 'b'], undefined],
  ])('where it takes too much, %s', async (_what, source, parts, told) => {
    const aside = { translate: tooMuch, parts: async () => parts.map(part) };
    const read_ = await read({ source, bytes: LARGE + 1 }, aside);
    expect(read_.told).toBe(told);
    expect(read_.failure?.code).toBe(told === undefined ? 'over_budget' : undefined);
    expect(read_.rejected?.map(({ content }) => content)).toEqual(told === undefined ? undefined : parts);
  });

  it('what can be read of a page is taken', async () => {
    const texts = (answer: (text: string) => Translation): Partial<WorkerTranslator> => {
      let isPage = true;
      return {
        async translate({ stored }) {
          if (isPage) {
            isPage = false;
            return tooMuch();
          }
          return answer(stored.body.toString());
        },
        parts: async () => ['a', 'b', 'c'].map(part),
      };
    };
    const reference = TRACKER.reference(workItem());
    const of = (translation: Translation) =>
      read(
        { source: 'poll', bytes: LARGE + 1 },
        texts((text) => (text === 'b' ? NONE : translation)),
      );
    expect((await of({ outcome: 'items', items: items(1) })).told).toBe('items');
    expect((await of({ outcome: 'references', references: [reference] })).told).toBe('references');
    const broken = texts((text) => {
      if (text === 'b') throw new SyncError('delivery_malformed', 'no');
      return NONE;
    });
    const { failure, rejected } = await read({ source: 'poll', bytes: LARGE + 1 }, broken);
    expect(failure).toBeUndefined();
    expect(rejected?.map(({ reason }) => reason)).toEqual(['delivery_malformed: element 2 of 3: no']);
    const failing = texts(() => {
      throw new SyncError('internal', 'no');
    });
    expect((await read({ source: 'poll', bytes: LARGE + 1 }, failing)).failure?.code).toBe('internal');
  });

  it('a page of which no element is well formed fails as one', async () => {
    const { query } = await openTestStore();
    const translate = () => {
      throw new SyncError('delivery_malformed', 'no');
    };
    const aside: WorkerTranslator = { translate: tooMuch, parts: async () => ['a', 'b'].map(part) };
    const sources = new Map([[TRACKER.connection, { ...TRACKER, translate, aside }]]);
    const delivery = { ...said(TRACKER, NONE).delivery, source: 'poll' as const };
    const [translated] = await translateAll([delivery], { query, sources, isSuspect: () => false });
    expect([translated?.failure?.code, translated?.rejected]).toEqual(['delivery_malformed', undefined]);
  });
});
