import { expect, it } from 'vitest';
import { traceRequest } from '../../../../src/platform/observe/otlp-json.ts';
import { createScrubber } from '../../../../src/platform/observe/scrubber.ts';
import type { IdentifiedSpan } from '../../../../src/platform/observe/span-tracer.ts';

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

it('never ends before it starts', () => {
  const { startTimeUnixNano, endTimeUnixNano } = encoded({ from: 5_000, to: 1_000 });
  expect(endTimeUnixNano).toBe(startTimeUnixNano);
});
