import { expect, it } from 'vitest';
import { createSpanTracer, type IdentifiedSpan } from '../../../../src/platform/observe/span-tracer.ts';

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

it('keeps as many links as a span may have, and tells how many it left out', () => {
  const { taken, tracer } = open();
  const links = Array.from({ length: 130 }, (_, index) => ({ trace: `delivery ${index}`, span: 'reconcile' }));
  tracer.record({ ...SPAN, of: { trace: 't', span: 's' }, links });
  expect(taken[0]?.links).toHaveLength(128);
  expect(taken[0]?.droppedLinks).toBe(2);
});

it('a child adds its attributes', () => {
  const { taken, tracer } = open();
  const of = { trace: 't', span: 's' };
  tracer.child({ workspace: 'acme', kind: 'a' }).record({ ...SPAN, of, attributes: { kind: 'b' } });
  expect(taken[0]?.attributes).toEqual({ workspace: 'acme', kind: 'b' });
});

it('records whole traces by their id, as many as asked', () => {
  const { taken, tracer } = open({ ratio: 0.25, propagates: true });
  for (let delivery = 0; delivery < 4_000; delivery++)
    for (const span of ['begin', 'reconcile']) tracer.record({ ...SPAN, of: { trace: `delivery ${delivery}`, span } });
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

it('names no trace to others unless asked', () => {
  const of = { trace: 'delivery 7', span: 'send' };
  expect(open().tracer.traceparent(of)).toBeUndefined();
  const { taken, tracer } = open({ propagates: true });
  tracer.record({ ...SPAN, of });
  expect(tracer.traceparent(of)).toBe(`00-${taken[0]?.traceId}-${taken[0]?.spanId}-01`);
});
