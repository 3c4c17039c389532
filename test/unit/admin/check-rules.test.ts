import { expect, it } from 'vitest';
import { triageFindings, workflowFindings } from '../../../src/admin/check-rules.ts';
import { loadText } from '../../support/rows/config-files.ts';

const CONNECTION = 'connections: { main: { connector: forge, projects: [one], writeBack: { close: true } } }\n';
const WORKSPACE = 'workspace: { url: https://w.example, apiKey: k, statuses: { in_progress: Doing } }\n';

const FACTS: Parameters<typeof workflowFindings>[1] = {
  statuses: new Set(['open', 'completed']),
  labels: new Set(),
  pullRequests: [],
  sources: [{ name: 'main', pullRequests: true, workItems: true, mayCover: () => true }],
};

/** The findings about rules, each a YAML mapping. */
function check(rules: readonly string[], preset = '', facts: Partial<typeof FACTS> = {}): string[] {
  const text = `${CONNECTION}${WORKSPACE}rules:\n  workflow:\n    ${preset}\n    rules: [${rules.join(', ')}]\n`;
  const [config] = loadText(text).workspaces;
  if (config === undefined) throw new Error('there is no workspace');
  return workflowFindings(config, { ...FACTS, ...facts }, 'work').map(({ level, message }) => `${level} ${message}`);
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
  const bothKinds = '{ when: { pullRequest: open, workItem: in_progress }, set: { status: open } }';
  expect(check([wide, bothKinds])).toEqual([]);
  expect(check([bothKinds, '{ when: { workItem: in_progress }, set: { status: open } }'])).toHaveLength(1);
  const anyBase = '{ when: { pullRequest: open, base: "*" }, set: { status: open } }';
  expect(check([anyBase, narrow])).toHaveLength(1);
  const others = '{ when: { pullRequest: merged, base: ["*", "!main"] }, set: { status: open } }';
  expect(check([others, '{ when: { pullRequest: merged, base: main }, set: { status: open } }'])).toEqual([]);
});

it('reports a base or a repository that no open pull request has', () => {
  const found = [
    { baseBranch: 'main', defaultBranch: 'main', repoId: '7', repoName: 'acme/app' },
    { baseBranch: 'release/2', defaultBranch: 'main', repoId: '8', repoName: null },
  ];
  const rule = (when: string) => `{ when: { pullRequest: merged, ${when} }, set: { status: open } }`;
  for (const when of [
    'base: default',
    'base: release/*',
    'base: ["*", "!main"]',
    'repository: acme/*',
    'repository: "8"',
  ])
    expect(check([rule(when)], '', { pullRequests: found })).toEqual([]);
  expect(check([rule('base: develop'), rule('repository: acme/wbe')], '', { pullRequests: found })).toEqual([
    'warning rule 1 of rules.workflow applies to the base develop, and no open pull request has it; they have: main, release/2',
    'warning rule 2 of rules.workflow applies to the repository acme/wbe, but no open pull request is in it; there are some in: acme/app, 8',
  ]);
  for (const when of ['base: develop', 'repository: acme/wbe']) expect(check([rule(when)])).toEqual([]);
});

it('reports a repository that no connection lists, before its first pull request is known', () => {
  const [source] = FACTS.sources;
  const sources = source ? [{ ...source, mayCover: (name: string) => name === 'acme/web' }] : [];
  const rule = (name: string) => `{ when: { pullRequest: merged, repository: "${name}" }, set: { status: open } }`;
  for (const name of ['acme/web', 'acme/*', '8']) expect(check([rule(name)], '', { sources })).toEqual([]);
  expect(check([rule('acme/wbe')], '', { sources })).toEqual([
    'warning rule 1 of rules.workflow applies to acme/wbe, which no connection of the rule covers',
  ]);
});

it('reports a rule whose items no connection provides', () => {
  const sources = [
    { name: 'main', pullRequests: true, workItems: false, mayCover: () => true },
    { name: 'other', pullRequests: false, workItems: true, mayCover: () => true },
  ];
  const rule = (when: string) => `{ when: { ${when} }, set: { status: open } }`;
  const both = rule('workItem: in_progress, pullRequest: open, connection: main');
  expect(check([rule('pullRequest: open'), rule('workItem: in_progress'), both], '', { sources })).toEqual([]);
  expect(check([rule('workItem: in_progress, connection: main')], '', { sources })).toEqual([
    'warning rule 1 of rules.workflow never applies: no connection of the rule provides work items',
  ]);
  // A tracker covers no repository of pull requests.
  const [git, tracker] = sources;
  const uncovered = git && tracker ? [{ ...git, mayCover: () => false }, tracker] : [];
  expect(check([rule('pullRequest: open, repository: acme/wbe')], '', { sources: uncovered })).toHaveLength(1);
});

it('reports a rule for new tasks that no work item can fit', () => {
  const [config] = loadText(
    `${CONNECTION}rules: { triage: [{ create: bug }, { when: { project: acme/wbe }, create: bug }] }\n`,
  ).workspaces;
  if (config === undefined) throw new Error('there is no workspace');
  const messages = (workItems: boolean) =>
    triageFindings(config, [{ name: 'main', pullRequests: true, workItems, mayCover: () => false }], 'work').map(
      ({ message }) => message,
    );
  expect(messages(true)).toEqual([
    'rule 2 of rules.triage applies to acme/wbe, which no connection of the rule covers',
  ]);
  expect(messages(false)).toEqual([
    'rule 1 of rules.triage never applies: no connection of the rule provides work items',
    'rule 2 of rules.triage never applies: no connection of the rule provides work items',
  ]);
});

it('reports labels that may be misspelt, and those that must exist', () => {
  const rules = [
    '{ when: { pullRequest: open }, set: { addLabels: [revieww, urgent] } }',
    '{ when: { pullRequest: merged }, set: { removeLabels: other } }',
  ];
  expect(check(rules, '', { labels: new Set(['review']) })).toEqual([
    'warning rule 1 of rules.workflow names the label revieww, which no task has; did you mean review?',
    'ok no task has these labels at present, which rules add: revieww, urgent; they must exist in the workspace',
  ]);
});

it('reports a status in from that no task has', () => {
  const rule = (from: string) => `{ when: { pullRequest: open }, set: { status: open }, from: ${from} }`;
  expect(check([rule('opne')])).toEqual([
    'warning "from" of rule 1 of rules.workflow names statuses that no task has: opne',
  ]);
  for (const from of ['open', '[planned, completed]']) expect(check([rule(from)])).toEqual([]);
});

it('reports force and a `from` beside it, a queue without webhooks, merged with write-back, and statuses that no task has', () => {
  const queued = '{ when: { pullRequest: queued }, set: { status: merged }, force: true }';
  const draft = '{ when: { pullRequest: draft }, set: { status: open }, from: planned, force: true }';
  expect(check([queued, draft])).toEqual([
    'warning rule 1 of rules.workflow has "force": it undoes what people do',
    'warning rule 2 of rules.workflow has "force": it undoes what people do, and its "from" has no effect',
    'warning a rule of rules.workflow is about "queued", which polls do not show: main',
    'warning rule 1 of rules.workflow sets "merged", which counts as finished: write-back closes items of main',
    expect.stringMatching(/^ok no task has these statuses yet, which rules set: merged;/),
  ]);
  expect(check([], 'preset: standard')).toEqual([
    expect.stringMatching(/^ok no task has these statuses yet, which rules set: Doing, review;/),
  ]);
});
