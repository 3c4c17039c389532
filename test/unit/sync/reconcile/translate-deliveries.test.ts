import { describe, expect, it } from 'vitest';
import type { Translation } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { LARGE } from '../../../../src/platform/lib/large.ts';
import type { ReconcileConnection, WorkerTranslator } from '../../../../src/sync/reconcile/context.ts';
import {
  partsOf,
  reasonOf,
  type Translated,
  translateAll,
  weightOf,
} from '../../../../src/sync/reconcile/translate-deliveries.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { answered, SOURCES, said, saidOf, TRACKER } from '../../../support/rows/batches.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

const items = (count: number) => Array.from({ length: count }, (_, at) => workItem({ key: `jira:cloud-1:${at}` }));
const page = (count: number) => said(TRACKER, { outcome: 'items', items: items(count), references: [] });

describe('a delivery with many items', () => {
  it.each<[count: number, parts: readonly number[]]>([
    [0, [0]],
    [1, [1]],
    [3, [3]],
    [4, [3, 1]],
    [6, [3, 3]],
    [7, [3, 3, 1]],
  ])('of %j items is split into parts of at most three: %j', (count, expected) => {
    const parts = partsOf(page(count), 3);
    const contents = parts.flatMap(({ translation }) => (translation?.outcome === 'items' ? [translation.items] : []));
    expect(contents.map(({ length }) => length)).toEqual(expected);
    expect(contents.flat()).toEqual(items(count));
    const last = parts.map(({ part }) => part?.isLast);
    expect(last).toEqual(expected.length === 1 ? [undefined] : expected.map((_, at) => at === expected.length - 1));
    expect(new Set(parts.map(({ part }) => part?.whole)).size).toBe(1);
  });

  it('keeps its rejected elements and references in the first part only', () => {
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
  ['an ignored delivery', 1, said(TRACKER, { outcome: 'ignored', reason: 'no' })],
  ['a list of the workspace', 4, answered('saw-tasks', { tasks: [1, 2, 3] })],
  ['an answer without a body', 1, answered('compare-records', null)],
])('%s has the weight %j', (_what, weight, translated) => {
  expect(weightOf(translated)).toBe(weight);
});

it('cuts a reason after 500 characters', () => {
  const reason = reasonOf(new SyncError('over_budget', 'x'.repeat(600)));
  expect([reason.length, reason.slice(0, 14)]).toEqual([500, 'over_budget: x']);
});

describe('a delivery is translated', () => {
  const NONE: Translation = { outcome: 'ignored', reason: 'here' };

  /** Returns the outcome of the translation. */
  async function read(
    fields: Partial<Translated['delivery']>,
    worker: Partial<WorkerTranslator> = {},
    isSuspected = false,
  ) {
    const { query } = await openTestStore();
    const source: ReconcileConnection = {
      ...TRACKER,
      translate: () => NONE,
      worker: {
        translate: async () => ({ outcome: 'ignored', reason: 'worker' }),
        elements: async () => [],
        ...worker,
      },
    };
    const sources = new Map([...SOURCES, [TRACKER.name, source]]);
    const delivery = { ...said(TRACKER, NONE).delivery, ...fields };
    const [translated] = await translateAll([delivery], { query, sources, isSuspected: () => isSuspected });
    const { translation, failure, rejected } = translated as Translated;
    return {
      outcome: translation?.outcome === 'ignored' ? translation.reason : translation?.outcome,
      failure,
      rejected,
    };
  }

  it.each<[what: string, where: string, bytes: number, isSuspected?: boolean]>([
    ['a body of a mebibyte', 'here', LARGE],
    ['a larger body', 'worker', LARGE + 1],
    ['a small suspected body', 'worker', 1, true],
  ])('%s is translated: %s', async (_what, where, bytes, isSuspected) => {
    expect((await read({ bytes }, {}, isSuspected)).outcome).toBe(where);
  });

  it('a delivery of a removed connection fails', async () => {
    expect((await read({ connection: 'gone' })).failure?.code).toBe('connection_unknown');
  });

  const overBudget = async () => {
    throw new SyncError('over_budget', 'much');
  };
  const part = (content: string) => ({ content, body: Buffer.from(content) });

  it.each<[what: string, via: 'poll' | 'backfill' | 'webhook', parts: readonly string[], outcome: string | undefined]>([
    ['a page is translated element by element', 'poll', ['a', 'b'], 'nothing of the page could be read'],
    ['a page of a backfill too', 'backfill', ['a', 'b'], 'nothing of the page could be read'],
    ['a page of one element fails', 'poll', ['a'], undefined],
    ['a webhook fails', 'webhook', ['a', 'b'], undefined],
  ])('over its budget, %s', async (_what, source, parts, outcome) => {
    const worker = { translate: overBudget, elements: async () => parts.map(part) };
    const result = await read({ source, bytes: LARGE + 1 }, worker);
    expect(result.outcome).toBe(outcome);
    expect(result.failure?.code).toBe(outcome === undefined ? 'over_budget' : undefined);
    expect(result.rejected?.map(({ content }) => content)).toEqual(outcome === undefined ? undefined : parts);
  });

  it('the readable elements of a page are kept', async () => {
    const texts = (answer: (text: string) => Translation): Partial<WorkerTranslator> => {
      let isPage = true;
      return {
        async translate({ stored }) {
          if (isPage) {
            isPage = false;
            return overBudget();
          }
          return answer(stored.body.toString());
        },
        elements: async () => ['a', 'b', 'c'].map(part),
      };
    };
    const reference = TRACKER.reference(workItem());
    const of = (translation: Translation) =>
      read(
        { source: 'poll', bytes: LARGE + 1 },
        texts((text) => (text === 'b' ? NONE : translation)),
      );
    expect((await of({ outcome: 'items', items: items(1) })).outcome).toBe('items');
    expect((await of({ outcome: 'references', references: [reference] })).outcome).toBe('references');
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

  it('a page without a well-formed element fails as a whole', async () => {
    const { query } = await openTestStore();
    const translate = () => {
      throw new SyncError('delivery_malformed', 'no');
    };
    const worker: WorkerTranslator = { translate: overBudget, elements: async () => ['a', 'b'].map(part) };
    const sources = new Map([[TRACKER.name, { ...TRACKER, translate, worker }]]);
    const delivery = { ...said(TRACKER, NONE).delivery, source: 'poll' as const };
    const [translated] = await translateAll([delivery], { query, sources, isSuspected: () => false });
    expect([translated?.failure?.code, translated?.rejected]).toEqual(['delivery_malformed', undefined]);
  });
});
