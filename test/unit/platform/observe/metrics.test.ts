import { globSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { Gauge, Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { createMetrics, FreshGauge } from '../../../../src/platform/observe/metrics.ts';

const SOURCES = `${import.meta.dirname}/../../../../src`;

/** `meter.count('name'` and its sisters, in all the sources. */
function calls(): { file: string; method: 'count' | 'gauge' | 'observe'; name: string }[] {
  const pattern = /[mM]eter\s*\.(count|gauge|observe)\(\s*'([^']+)'/g;
  return globSync('**/*.ts', { cwd: SOURCES }).flatMap((file) =>
    [...readFileSync(`${SOURCES}/${file}`, 'utf8').matchAll(pattern)].map(([, method, name]) => ({
      file,
      method: method as 'count',
      name: name ?? '',
    })),
  );
}

async function samples(text: Promise<string>): Promise<string[]> {
  return (await text).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

describe('metrics', () => {
  it('every metric that the sources report is declared, with its kind', async () => {
    const kinds = { count: 'counter', gauge: 'gauge', observe: 'histogram' };
    const text = await createMetrics({ version: '1' }).expose();
    const found = calls();
    expect(found.length).toBeGreaterThan(10);
    for (const { file, method, name } of found)
      expect(text, `${name} in ${file}`).toContain(`# TYPE worksync_${name} ${kinds[method]}`);
  });

  it('every name has the prefix and a base unit, and every metric a help text', async () => {
    const text = await createMetrics({ version: '1' }).expose();
    const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)];
    expect(types.length).toBeGreaterThan(40);
    const counters = types.filter(([, , kind]) => kind === 'counter').map(([, name]) => name);
    expect(counters.filter((name) => !name?.endsWith('_total'))).toEqual([]);
    for (const [, name] of types) {
      expect(name).toMatch(/^worksync_[a-z0-9_]+$/);
      expect(name).not.toMatch(/milli|_ms$|minutes|kilo|mega/);
      expect(text).toMatch(new RegExp(`^# HELP ${name} .+`, 'm'));
    }
  });

  it('names the workspace on what is measured per workspace, and only there', async () => {
    const metrics = createMetrics({ version: '1.2.3' });
    metrics.forWorkspace('acme').gauge('inbox_pending', 3);
    metrics.forWorkspace('other').gauge('inbox_pending', 4);
    metrics.forWorkspace('acme').count('http_requests_total', { target: 'gh', status: '200' }, 2);
    metrics.forWorkspace('acme').observe('sync_lag_seconds', 0.3);
    metrics.meter.gauge('up', 1);
    const lines = await samples(metrics.expose());
    expect(lines).toContain('worksync_inbox_pending{workspace="acme"} 3');
    expect(lines).toContain('worksync_inbox_pending{workspace="other"} 4');
    expect(lines).toContain('worksync_http_requests_total{target="gh",status="200"} 2');
    expect(lines).toContain('worksync_sync_lag_seconds_bucket{le="0.5",workspace="acme"} 1');
    expect(lines).toContain('worksync_up 1');
    expect(lines).toContain(`worksync_build_info{version="1.2.3",node="${process.versions.node}"} 1`);
  });
});

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
});
