import fc from 'fast-check';
import { Gauge, Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { FreshGauge } from '../../../../src/platform/observe/fresh-gauge.ts';

const LABELS = ['workspace', 'lane'];

describe('a gauge that each scrape sets anew', () => {
  it('tells the same as one of the library, whatever the labels hold', async () => {
    const sample = fc.record({ workspace: fc.string(), lane: fc.string(), value: fc.double({ noNaN: true }) });
    await fc.assert(
      fc.asyncProperty(fc.array(sample), async (samples) => {
        const registry = new Registry();
        const theirs = new Gauge({ name: 'depth', help: 'How many.', labelNames: LABELS, registers: [registry] });
        const ours = new FreshGauge('depth', 'How many.', LABELS);
        for (const { value, ...labels } of samples) {
          theirs.set(labels, value);
          ours.set(labels, value);
        }
        const lines = (text: string) => text.split('\n').toSorted();
        expect(lines(ours.text())).toEqual(lines(await registry.getSingleMetricAsString('depth')));
      }),
    );
  });

  it('keeps nothing of the scrape before', () => {
    const gauge = new FreshGauge('depth', 'How many.', LABELS);
    gauge.set({ workspace: 'gone', lane: 'link' }, 3);
    gauge.reset();
    gauge.set({ workspace: 'there', lane: 'link' }, 1);
    gauge.set({ workspace: 'there', lane: 'link' }, 2);
    expect(gauge.text().split('\n').slice(2)).toEqual(['depth{workspace="there",lane="link"} 2']);
  });
});
