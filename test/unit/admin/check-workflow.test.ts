import { expect, it } from 'vitest';
import { workflowFindings } from '../../../src/admin/check-workflow.ts';
import { loadText } from '../../support/rows/config-files.ts';

const CONNECTION = 'connections: { main: { connector: forge, projects: [one], writeBack: { close: true } } }\n';
const WORKSPACE = 'workspace: { url: https://w.example, apiKey: k, statuses: { in_progress: Doing } }\n';

/** The findings about rules, each a YAML mapping. */
function check(
  rules: readonly string[],
  preset = '',
  bases: Parameters<typeof workflowFindings>[1]['bases'] = [],
): string[] {
  const text = `${CONNECTION}${WORKSPACE}rules:\n  workflow:\n    ${preset}\n    rules: [${rules.join(', ')}]\n`;
  const [config] = loadText(text).workspaces;
  if (config === undefined) throw new Error('there is no workspace');
  return workflowFindings(config, { statuses: new Set(['open', 'completed']), bases }, 'work').map(
    ({ level, message }) => `${level} ${message}`,
  );
}

it('reports a rule that an earlier one covers, and none that is narrower', () => {
  const wide = '{ when: { pullRequest: [open, merged] }, set: { status: open } }';
  const narrow = '{ when: { pullRequest: open, labels: urgent }, set: { status: open } }';
  expect(check([wide, narrow])).toEqual([
    'warning rule 2 of rules.workflow never applies: rule 1 of rules.workflow takes all its items',
  ]);
  expect(check([narrow, wide])).toEqual([]);
  const closing = '{ when: { pullRequest: merged }, set: { status: completed } }';
  const carrying = '{ when: { pullRequest: merged, link: carrying }, set: { status: open } }';
  expect(check([closing, carrying])).toEqual([]);
  const others = '{ when: { pullRequest: merged, base: ["*", "!main"] }, set: { status: open } }';
  expect(check([others, '{ when: { pullRequest: merged, base: main }, set: { status: open } }'])).toEqual([]);
});

it('reports a base that no open pull request has', () => {
  const bases = [
    { baseBranch: 'main', defaultBranch: 'main' },
    { baseBranch: 'release/2', defaultBranch: 'main' },
  ];
  const rule = (base: string) => `{ when: { pullRequest: merged, base: ${base} }, set: { status: open } }`;
  for (const base of ['default', 'release/*', '["*", "!main"]']) expect(check([rule(base)], '', bases)).toEqual([]);
  expect(check([rule('develop')], '', bases)).toEqual([
    'warning rule 1 of rules.workflow applies to the base develop, and no open pull request has it; they have: main, release/2',
  ]);
  expect(check([rule('develop')])).toEqual([]);
});

it('reports a status in from that no task has', () => {
  const rule = (from: string) => `{ when: { pullRequest: open }, set: { status: open }, from: ${from} }`;
  expect(check([rule('opne')])).toEqual([
    'warning "from" of rule 1 of rules.workflow names statuses that no task has: opne',
  ]);
  for (const from of ['open', '[planned, completed]']) expect(check([rule(from)])).toEqual([]);
});

it('reports force, a queue without webhooks, merged with write-back, and statuses that no task has', () => {
  expect(check(['{ when: { pullRequest: queued }, set: { status: merged }, from: open, force: true }'])).toEqual([
    'warning rule 1 of rules.workflow has "force": it undoes what people do',
    'warning a rule of rules.workflow is about "queued", which polls do not show: main',
    'warning rule 1 of rules.workflow sets "merged", which counts as finished: write-back closes items of main',
    expect.stringMatching(/^ok no task has these statuses yet, which rules set: merged;/),
  ]);
  expect(check([], 'preset: standard')).toEqual([
    expect.stringMatching(/^ok no task has these statuses yet, which rules set: Doing, review;/),
  ]);
});
