import { describe, expect, test } from 'vitest';
import { loadText, problemsOf } from '../../../support/rows/config-files.ts';

const CONNECTIONS = 'connections: { main: { connector: forge, projects: [one] } }\n';
const rulesOf = (text: string) => loadText(`${CONNECTIONS}${text}`).workspaces[0];
const problems = (text: string) => problemsOf({ 'work.yaml': `${CONNECTIONS}${text}` });

describe('rules', () => {
  test('one value stands for a list of it', () => {
    const config = rulesOf(`
rules:
  links: [{ pattern: 'T(\\d+)', place: branch, task: 'BUG-$1', connection: ma* }]
  triage:
    - { when: { labels: a, status: [open] }, create: bug, priority: high, since: 2026-01-31 }
    - { create: nothing, since: always }
workspace: { web: https://boards.example.com/acme/ }
users: { main: { ann: u1 }, forge: { bo: u2 }, email: { c@x.example: u3 } }
`);
    expect(config?.rules.links).toEqual([
      { pattern: 'T(\\d+)', place: ['branch'], task: 'BUG-$1', connection: ['ma*'] },
    ]);
    expect(config?.rules.triage[0]).toMatchObject({
      when: { labels: ['a'], status: ['open'] },
      title: '{title}',
      labels: [],
      priority: { '*': 'high' },
      since: Date.UTC(2026, 0, 31),
    });
    expect(config?.rules.triage[1]).toMatchObject({ when: {}, create: 'nothing', since: 0 });
    expect(config?.workspace.web).toEqual(['https://boards.example.com/acme']);
    expect(config?.users['forge']).toEqual({ bo: 'u2' });
  });

  test.each([
    ["rules: { links: [{ pattern: 'x/(a)', task: '$1-$2' }] }", 'rules.links#1.task: $2 is no group of the pattern'],
    ["rules: { links: [{ pattern: '(' }] }", 'rules.links#1.pattern: error parsing regexp'],
    ["rules: { links: [{ pattern: 'a(?=b)' }] }", 'rules.links#1.pattern: error parsing regexp'],
    ["rules: { links: [{ pattern: '((a?){50}){50}' }] }", 'rules.links#1.pattern: '],
    [
      "rules: { triage: [{ create: bug, title: '{who}' }] }",
      'rules.triage#1.title: expected a text with no other variables',
    ],
    ['rules: { triage: [{ create: task }] }', 'rules.triage#1.create: expected one of "bug", "idea", "nothing"'],
    ['rules: { triage: [{ when: { label: a }, create: bug }] }', 'unknown key "label"'],
    ['rules: { triage: [{ create: bug, since: soon }] }', 'rules.triage#1.since: expected a date, a time such as'],
    ['rules: { triage: [{ create: bug, since: 2026-02-30 }] }', 'rules.triage#1.since: expected a date'],
    ['rules: { triage: [{ create: bug, priority: { P1: soon } }] }', 'rules.triage#1.priority'],
    ['rules: { trailers: ["no spaces"] }', 'rules.trailers#1: expected letters, digits and hyphens'],
    [
      'rules: { triage: [{ create: buk }] }',
      'rules.triage#1.create: expected one of "bug", "idea", "nothing" (did you mean "bug"?)',
    ],
    [
      'rules: { triage: [{ create: bug }, { when: { connection: [main, mian] }, create: bug }] }',
      'rules.triage#2.when.connection: no connection is called "mian"; there are: main (did you mean "main"?)',
    ],
    [
      'rules: { links: [{ pattern: T1, task: BUG-1, connection: "jira*" }] }',
      'rules.links#1.connection: no connection is called "jira*"; there are: main',
    ],
    [
      'rules: { workflow: { rules: [{ when: { pullRequest: merged, connection: mian }, set: { status: completed } }] } }',
      'rules.workflow.rules#1.when.connection: no connection is called "mian"; there are: main (did you mean "main"?)',
    ],
    [
      'rules: { workflow: { rules: [{ when: { pullRequest: merged }, set: { status: completed }, force: true }] } }',
      'rules.workflow.rules#1.from: `force` needs `from`',
    ],
    [
      'rules: { workflow: { rules: [{ when: { pullRequest: merged }, set: { status: Done } }] } }',
      '"previous" (did you mean "completed"?)',
    ],
    ['rules: { workflow: { trust: [bob] } }', 'rules.workflow.trust: expected one of "members", "anyone" or a mapping'],
    ['rules: { workflow: { trust: { peple: [bob] } } }', 'rules.workflow.trust: missing key "people"'],
    [
      'rules: { workflow: { rules: [{ when: { pullRequest: [opne] }, set: { status: open } }] } }',
      'rules.workflow.rules#1.when.pullRequest#1: expected one of "open"',
    ],
    [
      'rules: { workflow: { rules: [{ when: { pullRequest: opne }, set: { status: open } }] } }',
      '"reopened" or a list (did you mean "open"?)',
    ],
    ['rules: { documents: move }', 'rules.documents: expected one of "attach", "off"'],
    [
      'users: { forg: { ann: u1 } }',
      'users: "forg" is no connection, no connector, and not email (did you mean "forge"?)',
    ],
    ['users: { forge: { ann: "not an id" } }', 'users.forge.ann: expected the id of a workspace user'],
    [
      'triage: { send: [title] }',
      'triage.send#1: expected one of "labels", "priority", "assigneeIds", "reporterUserId", "source"',
    ],
    ['workspace: { web: nowhere }', 'workspace.web: expected an address'],
  ])('%s', (text, message) => {
    expect(problems(text).join('\n')).toContain(message);
  });

  test('writing back is off unless it is switched on, one by one [A14]', () => {
    const of = (text: string) =>
      loadText(`connections: { main: { connector: forge, projects: [one]${text} } }`).workspaces[0]?.connections[0]
        ?.writeBack;
    expect(of('')).toEqual({ comment: false, close: false, status: false });
    expect(of(', writeBack: { comment: true }')).toEqual({ comment: true, close: false, status: false });
    expect(of(', writeBack: { status: require }')?.status).toBe('require');
  });
});
