import { expect, it } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import type { Labels } from '../../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { type CollectorAnswer, createSpanExporter } from '../../../../src/platform/observe/span-exporter.ts';
import type { IdentifiedSpan } from '../../../../src/platform/observe/span-tracer.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

const TAKEN: CollectorAnswer = { status: 200, headers: {}, body: Buffer.from('{}') };
const refused = (status: number, headers = {}): CollectorAnswer => ({ status, headers, body: Buffer.from('{}') });

/** A collector that gives these answers, and takes everything after them. */
function open(...answers: (CollectorAnswer | SyncError | 'never')[]) {
  const clock = createTravellingClock();
  const batches: { readonly at: number; readonly names: string[] }[] = [];
  const dropped: [Labels | undefined, number | undefined][] = [];
  const warnings: LogFields[] = [];
  const exporter = createSpanExporter({
    clock,
    random: { ...systemRandom(), float: () => 1 },
    logger: { ...silentLogger, warn: (fields) => void warnings.push(fields) },
    meter: { count: (_name, labels, by) => void dropped.push([labels, by]), gauge() {}, observe() {} },
    async send(spans, signal) {
      batches.push({ at: clock.elapsed(), names: spans.map(({ name }) => name) });
      const answer = answers.shift() ?? TAKEN;
      if (answer instanceof Error) throw answer;
      if (answer !== 'never') return answer;
      return new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(new SyncError('aborted', 'too late'))),
      );
    },
  });
  return { clock, batches, dropped, warnings, exporter };
}

function span(name: string): IdentifiedSpan {
  const ids = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), links: [], droppedLinks: 0 };
  return { ...ids, name, kind: 'internal', from: 1, to: 2, attributes: {} };
}

it('gathers for a second, and sends a full batch at once', async () => {
  const { clock, batches, exporter } = open();
  exporter.take(span('a'));
  await clock.advance(500);
  exporter.take(span('b'));
  await clock.advance(499);
  expect(batches).toEqual([]);
  await clock.advance(1);
  expect(batches).toEqual([{ at: 1_000, names: ['a', 'b'] }]);
  for (let index = 0; index < 512; index++) exporter.take(span('c'));
  expect(batches[1]).toMatchObject({ at: 1_000 });
  expect(batches[1]?.names).toHaveLength(512);
  await clock.advance(2_000);
  exporter.take(span('d'));
  await clock.advance(1_000);
  expect(batches[2]).toMatchObject({ names: ['d'] });
});

it.each([429, 502, 503, 504])('sends a batch again after %i, later each time', async (status) => {
  const { clock, batches, dropped, exporter } = open(refused(status), refused(status));
  exporter.take(span('a'));
  await clock.advance(60_000);
  expect(batches.map(({ at }) => at)).toEqual([1_000, 2_000, 4_000]);
  expect(dropped).toEqual([]);
});

it('waits as long as the collector says, within bounds, and repeats what got no answer', async () => {
  const { clock, batches, exporter } = open(
    refused(503, { 'retry-after': '7' }),
    refused(429, { 'retry-after': '99999' }),
    new SyncError('unreachable', 'nobody there'),
  );
  exporter.take(span('a'));
  await clock.advance(120_000);
  expect(batches.map(({ at }) => at)).toEqual([1_000, 8_000, 38_000, 42_000]);
});

it.each([400, 401, 404, 413, 500, 302])('does not repeat after %i', async (status) => {
  const { clock, batches, dropped, warnings, exporter } = open(refused(status));
  exporter.take(span('a'));
  exporter.take(span('b'));
  await clock.advance(60_000);
  expect(batches).toHaveLength(1);
  expect(dropped).toEqual([[{ reason: 'not_exported' }, 2]]);
  expect(warnings).toEqual([{ code: 'server_failed', reason: `the collector answered ${status}` }]);
});

it('gives a batch up after five attempts, and goes on with the next', async () => {
  const { clock, batches, dropped, exporter } = open(...Array.from({ length: 5 }, () => refused(503)));
  exporter.take(span('a'));
  await clock.advance(5_000);
  exporter.take(span('b'));
  await clock.advance(60_000);
  expect(batches.map(({ names }) => names[0])).toEqual(['a', 'a', 'a', 'a', 'a', 'b']);
  expect(dropped).toEqual([[{ reason: 'not_exported' }, 1]]);
});

it('keeps a bounded number while the collector is away, and counts what it drops', async () => {
  const { clock, dropped, exporter } = open('never');
  exporter.take(span('first'));
  await clock.advance(1_000);
  for (let index = 0; index < 2_050; index++) exporter.take(span('more'));
  expect(dropped).toEqual([
    [{ reason: 'queue_full' }, 1],
    [{ reason: 'queue_full' }, 1],
  ]);
});

it('believes a collector that took only some', async () => {
  const body = Buffer.from(JSON.stringify({ partialSuccess: { rejectedSpans: '2', errorMessage: 'too old' } }));
  const { clock, batches, dropped, warnings, exporter } = open({ ...TAKEN, body });
  for (const name of ['a', 'b', 'c']) exporter.take(span(name));
  await clock.advance(60_000);
  expect(batches).toHaveLength(1);
  expect(dropped).toEqual([[{ reason: 'refused' }, 2]]);
  expect(warnings).toEqual([{ reason: 'too old' }]);
});

it('sends what waits at the end, also what was to be repeated, and takes no more', async () => {
  const { clock, batches, dropped, exporter } = open(refused(503));
  exporter.take(span('a'));
  await clock.advance(1_500);
  exporter.take(span('b'));
  await exporter.stop();
  expect(batches.map(({ names }) => names)).toEqual([['a'], ['a', 'b']]);
  exporter.take(span('late'));
  expect(dropped).toEqual([[{ reason: 'queue_full' }, 1]]);
});

it('does not hold up the end for a collector that does not answer', async () => {
  const { clock, dropped, exporter } = open('never', 'never');
  for (let index = 0; index < 600; index++) exporter.take(span('a'));
  const ended = exporter.stop();
  await clock.advance(1_500);
  await ended;
  expect(dropped.reduce((sum, [, by]) => sum + (by ?? 0), 0)).toBe(600);
});
