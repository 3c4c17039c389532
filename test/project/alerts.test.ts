import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { WARNINGS } from '../../src/admin/status/verdict.ts';
import type { Labels } from '../../src/platform/lib/telemetry.ts';
import { createMetrics, METRICS } from '../../src/platform/observe/metrics.ts';
import { setGauges } from '../../src/web/page-routes.ts';
import { statusWith } from '../support/harness/web.ts';

/** Files for Prometheus and Grafana name existing metrics and labels, and each alert has its runbook. */

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}
interface Panel {
  readonly title: string;
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
}

const read = (path: string) => readFileSync(join(import.meta.dirname, '../../config', path), 'utf8');
const rules = (parse(read('deploy/alerts.yaml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);
const dashboard = JSON.parse(read('deploy/grafana-dashboard.json')) as {
  panels: Panel[];
  templating: { list: { query: string }[] };
};
const panels = dashboard.panels.flatMap(({ targets }) => targets);
const expressions = [
  ...rules.map(({ expr }) => expr),
  ...panels.map(({ expr }) => expr),
  ...dashboard.templating.list.map(({ query }) => query).filter((query) => query.includes('(')),
];
const OPERATING = read('operating.md');

/** Names of metrics with the labels that stand in braces behind them. */
function used(expr: string): { metric: string; labels: { name: string; value: string }[] }[] {
  return [...expr.matchAll(/worksync_(\w+)(?:\{([^}]*)\})?/g)].map(([, metric = '', inner = '']) => ({
    metric,
    labels: [...inner.matchAll(/(\w+)(?:=~|!=|=)"([^"]*)"/g)].map(([, name = '', value = '']) => ({ name, value })),
  }));
}

function labelsOf(metric: string): readonly string[] {
  const declared = METRICS[metric.replace(/_bucket$/, '')];
  return [...(declared?.perWorkspace ? ['workspace'] : []), ...Object.keys(declared?.labels ?? {})];
}

it('every metric exists, with each label and each value that is named', async () => {
  const text = await createMetrics({ version: '1' }).expose();
  const all = expressions.flatMap(used);
  expect(all.length).toBeGreaterThan(30);
  for (const { metric, labels } of all) {
    expect(text).toContain(`# TYPE worksync_${metric.replace(/_bucket$/, '')} `);
    for (const { name, value } of labels) {
      expect(labelsOf(metric), `labels of ${metric}`).toContain(name);
      const values = METRICS[metric]?.labels?.[name];
      if (values) for (const each of value.split('|')) expect(values, `${metric} ${name}`).toContain(each);
    }
  }
});

it('every label that is shown or grouped by is one of the metrics', () => {
  const shown = [
    ...rules.map(({ expr, annotations }) => ({ expr, text: annotations.summary, pattern: /\$labels\.(\w+)/g })),
    ...panels.map(({ expr, legendFormat }) => ({ expr, text: legendFormat, pattern: /\{\{(\w+)\}\}/g })),
    ...expressions.map((expr) => ({
      expr,
      text: [...expr.matchAll(/by \(([^)]*)\)/g)].join(),
      pattern: /(\w+)(?=[,)])/g,
    })),
  ];
  for (const { expr, text, pattern } of shown) {
    const labels = used(expr).flatMap(({ metric }) => ['le', ...labelsOf(metric)]);
    const named = [...text.matchAll(pattern)].map(([, name]) => name);
    expect(
      named.filter((name) => !labels.includes(name ?? '')),
      `labels in ${expr}`,
    ).toEqual([]);
  }
});

it('each alert says how urgent it is and leads to its own runbook, which names a command', () => {
  expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  for (const { alert, labels, annotations } of rules) {
    expect(['critical', 'warning']).toContain(labels.severity);
    expect(annotations.runbook_url).toBe(`https://sync.example.com/help/operating#${alert.toLowerCase()}`);
    const [, runbook = ''] = OPERATING.split(`\n#### ${alert}\n`);
    expect(runbook.split('\n#')[0]?.length, `runbook of ${alert}`).toBeGreaterThan(100);
  }
  const headings = [...OPERATING.matchAll(/^#### (Worksync\w+)$/gm)].map(([, heading]) => heading);
  expect(headings).toEqual(rules.map(({ alert }) => alert));
});

it('there is an alert for each problem that the status can show, which leads to its runbook', () => {
  const alerts = rules.flatMap(({ alert, expr }) =>
    used(expr).flatMap(({ labels }) =>
      labels
        .filter(({ name }) => name === 'code')
        .flatMap(({ value }) => value.split('|').map((code) => [code, alert] as const)),
    ),
  );
  // Alarmed on for each connection by itself.
  const others = [['connections_failing', 'WorksyncConnectionFailing']] as const;
  const runbooks = WARNINGS.map(({ code, runbook }) => [code, runbook] as const);
  expect(new Map([...alerts, ...others])).toEqual(new Map(runbooks));
});

it('no panel of the dashboard covers another', () => {
  const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_cell, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
});

it('a workspace adds fewer series than the page says', async () => {
  const metrics = createMetrics({ version: '1' });
  const count = async () => (await metrics.expose()).split('\n').filter((line) => line.startsWith('worksync_')).length;
  const meter = metrics.forWorkspace('acme');
  const before = await count();
  const [status] = statusWith().workspaces;
  if (!status) throw new Error('there is none');
  setGauges(meter, status, status.quota.nextSlotAt ?? 0);
  // Every value that a label may have, and of those that have no list: two connections, and ten of each other.
  for (const [name, { kind, perWorkspace, labels = {} }] of Object.entries(METRICS)) {
    if (!perWorkspace || kind === 'gauge') continue;
    const all = Object.entries(labels).reduce<Record<string, string>[]>(
      (sets, [label, values]) =>
        sets.flatMap((set) =>
          (
            values ??
            Array.from(
              { length: label === 'connection' ? 2 : label === 'status' ? 2 : 10 },
              (_each, index) => `${index}`,
            )
          ).map((value) => ({ ...set, [label]: value })),
        ),
      [{}],
    );
    const report = kind === 'counter' ? meter.count : (metric: string, set: Labels) => meter.observe(metric, 1, set);
    for (const set of all) report(name, set);
  }
  const added = (await count()) - before;
  expect(added).toBeLessThan(230);
  expect(before + added).toBeLessThan(500);
});
