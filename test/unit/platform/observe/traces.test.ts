import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../../src/model/errors.ts';
import { systemRandom } from '../../../../src/platform/lib/clock.ts';
import { type Labels, type LogFields, silentLogger } from '../../../../src/platform/lib/telemetry.ts';
import { createScrubber } from '../../../../src/platform/observe/scrubber.ts';
import {
  type CollectorAnswer,
  createSpanExporter,
  createSpanTracer,
  type IdentifiedSpan,
  traceRequest,
} from '../../../../src/platform/observe/span-exporter.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';

describe('the export of spans', () => {
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

  it.each([400, 401, 404, 413, 500, 302])('does not repeat after %i', async (status) => {
    const { clock, batches, dropped, warnings, exporter } = open(refused(status));
    exporter.take(span('a'));
    exporter.take(span('b'));
    await clock.advance(60_000);
    expect(batches).toHaveLength(1);
    expect(dropped).toEqual([[{ reason: 'not_exported' }, 2]]);
    expect(warnings).toEqual([{ code: 'server_failed', reason: `the collector answered ${status}` }]);
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
});

describe('the ids of spans', () => {
  const SPAN = { name: 'n', kind: 'internal', from: 1, to: 2, attributes: {} } as const;

  function open(setting: { installation?: string; ratio?: number; propagates?: boolean } = {}) {
    const taken: IdentifiedSpan[] = [];
    const take = (span: IdentifiedSpan) => void taken.push(span);
    return { taken, tracer: createSpanTracer({ installation: 'one', ratio: 1, propagates: false, take, ...setting }) };
  }

  it('makes the same ids of the same names, in any process of an installation, and others elsewhere', () => {
    const [first, second, elsewhere] = [open(), open(), open({ installation: 'two' })];
    for (const { tracer } of [first, second, elsewhere])
      tracer.record({ ...SPAN, of: { trace: 'delivery 7', span: 'begin' } });
    expect(first.taken).toEqual(second.taken);
    const [one] = first.taken;
    const [two] = elsewhere.taken;
    expect(one?.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(one?.spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(two?.traceId).not.toBe(one?.traceId);
    expect(two?.spanId).not.toBe(one?.spanId);
  });

  it('names parents and links by what they are about, recorded or not', () => {
    const { taken, tracer } = open();
    const begin = { trace: 'delivery 7', span: 'begin' };
    const other = { trace: 'delivery 8', span: 'reconcile' };
    tracer.record({ ...SPAN, of: { trace: 'delivery 7', span: 'reconcile' }, parent: 'begin', links: [other] });
    tracer.record({ ...SPAN, of: begin });
    tracer.record({ ...SPAN, of: other });
    const [decision, root, linked] = taken;
    expect(decision?.parentSpanId).toBe(root?.spanId);
    expect(decision?.traceId).toBe(root?.traceId);
    expect(root?.parentSpanId).toBeUndefined();
    expect(decision?.links).toEqual([{ traceId: linked?.traceId, spanId: linked?.spanId }]);
  });

  it('records whole traces by their id, as many as asked', () => {
    const { taken, tracer } = open({ ratio: 0.25, propagates: true });
    for (let delivery = 0; delivery < 4_000; delivery++)
      for (const span of ['begin', 'reconcile'])
        tracer.record({ ...SPAN, of: { trace: `delivery ${delivery}`, span } });
    const traces = Map.groupBy(taken, ({ traceId }) => traceId);
    expect([...traces.values()].every((spans) => spans.length === 2)).toBe(true);
    // The ids of an installation are fixed, so this figure is too.
    expect(traces.size).toBeGreaterThan(900);
    expect(traces.size).toBeLessThan(1_100);
    const flags = Array.from({ length: 40 }, (_, delivery) =>
      tracer.traceparent({ trace: `delivery ${delivery}`, span: 'send' }),
    );
    for (const value of flags) {
      const [, traceId = '', , flag] = value?.split('-') ?? [];
      expect(flag).toBe(traces.has(traceId) ? '01' : '00');
    }
  });
});

describe('the JSON of a trace', () => {
  const SPAN: IdentifiedSpan = {
    traceId: '5b8efff798038103d269b633813fc60c',
    spanId: 'eee19b7ec3c1b174',
    links: [],
    droppedLinks: 0,
    name: 'send',
    kind: 'client',
    from: 1_544_712_660_000.123,
    to: 1_544_712_661_000,
    attributes: {},
  };

  function encoded(span: Partial<IdentifiedSpan>) {
    const scrubber = createScrubber(['s3cr3t-value']);
    const input = { resource: { 'service.name': 'worksync' }, version: '1', scrub: scrubber.scrub };
    const text = traceRequest([{ ...SPAN, ...span }], input);
    return JSON.parse(text).resourceSpans[0].scopeSpans[0].spans[0];
  }

  it('is the JSON encoding of OTLP: hexadecimal ids, enums as numbers, 64-bit integers as texts', () => {
    const attributes = { text: 't', flag: false, count: -3, share: 0.5, none: undefined };
    expect(encoded({ attributes, parentSpanId: 'eee19b7ec3c1b173', error: 'refused' })).toEqual({
      traceId: '5b8efff798038103d269b633813fc60c',
      spanId: 'eee19b7ec3c1b174',
      parentSpanId: 'eee19b7ec3c1b173',
      name: 'send',
      kind: 3,
      startTimeUnixNano: '1544712660000123000',
      endTimeUnixNano: '1544712661000000000',
      attributes: [
        { key: 'text', value: { stringValue: 't' } },
        { key: 'flag', value: { boolValue: false } },
        { key: 'count', value: { intValue: '-3' } },
        { key: 'share', value: { doubleValue: 0.5 } },
      ],
      status: { code: 2, message: 'refused' },
    });
  });

  it('removes secrets before it cuts texts', () => {
    const long = `${'x'.repeat(250)}s3cr3t-value`;
    const { attributes, status } = encoded({ attributes: { long }, error: 'it said s3cr3t-value' });
    expect(attributes[0].value.stringValue).toBe(`${'x'.repeat(250)}[secre`);
    expect(status.message).toBe('it said [secret]');
  });
});
