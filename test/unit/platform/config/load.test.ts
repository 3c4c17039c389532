import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { generic } from '../../../../src/connectors/generic/index.ts';
import { shortcut } from '../../../../src/connectors/shortcut/index.ts';
import type { SyncError } from '../../../../src/model/errors.ts';
import { loadConfig, RESERVED_NAME } from '../../../../src/platform/config/load.ts';
import type { WorkspaceConfig } from '../../../../src/platform/config/schema.ts';
import { textWithoutSecrets } from '../../../../src/platform/config/yaml-document.ts';
import { INSTALLATION_FILE } from '../../../../src/store/installation/installation.ts';
import { cpuTimeOf } from '../../../support/cost/cpu-time.ts';
import {
  apiOverrides,
  folderOf,
  forge,
  load,
  loadText,
  problemsOf,
  refusal,
} from '../../../support/rows/config-files.ts';

const workspaceOf = (keys: string) => `workspace: { ${keys} }\n${FORGE}`;
const statusesOf = (added: string) => workspaceOf(`statuses: { ${added} }`);
const trackerOf = (keys: string) => `connections: { a: { connector: tracker, ${keys} } }`;
const forgeOf = (keys: string) => `connections: { a: { connector: forge, projects: [one], ${keys} } }`;
const FORGE = 'connections: { main: { connector: forge, projects: [one] } }';
const SECRET = 'a-webhook-secret-of-some-length';
const MINIMAL = `
connections:
  main:
    connector: forge
    projects: [one]
`;

/** Anchors of which each contains the one before. */
function chain(length: number, first: string, nest: (previous: string) => string): string {
  const lines = Array.from({ length }, (_, at) => `a${at}: &a${at} ${nest(at === 0 ? first : `*a${at - 1} `)}\n`);
  return lines.join('');
}

/** Lines that once made the cost of a file grow with the square of its length. */
test.each<[what: string, line: (index: number) => string]>([
  ['unknown keys', (index) => `key${index}: 1\n`],
  ['keys that appear twice', () => 'a: 1\n'],
  ['anchors', (index) => `a${index}: &a${index} x\nb${index}: *a${index}\n`],
])('a file of many %s lists at most 100 problems, in linear time', (_what, line) => {
  let text = '';
  for (let index = 0; text.length < 131_072; index++) text += line(index);
  let error: SyncError | undefined;
  // Milliseconds; before, seconds to minutes.
  expect(cpuTimeOf(() => (error = refusal(() => loadText(text))))).toBeLessThan(2_500);
  expect(error?.message.split('\n').length).toBeLessThanOrEqual(100);
});

describe('a valid file', () => {
  test('gets every default', () => {
    const { workspaces, secrets, warnings } = loadText(MINIMAL);
    expect(workspaces).toEqual([
      {
        name: 'work',
        file: expect.stringMatching(/work\.yaml$/),
        workspace: { id: 'current', api: {}, statuses: {}, web: [], sweep: { everyMs: 86_400_000 } },
        quota: { requests: 200, window: 900_000, burst: 40, burstWindow: 60_000, share: 'auto', concurrency: 8 },
        mirror: 'auto',
        retention: { bodies: 14 * 86_400_000, deliveries: 90 * 86_400_000 },
        guard: { removals: 20, creations: 200, repairs: 100, statuses: 50 },
        gateway: { fresh: 15_000, wait: 20_000, keyPrefix: 'wsk_' },
        rules: { trailers: ['Task'], links: [], triage: [], documents: 'off' },
        triage: { send: ['labels', 'priority', 'assigneeIds', 'reporterUserId', 'source'] },
        users: {},
        connections: [
          {
            name: 'main',
            connector: 'forge',
            options: { projects: ['one'], retries: 1, verbose: false },
            webhookSecrets: [],
            poll: { everyMs: 300_000 },
            sweep: { everyMs: 86_400_000 },
            mirror: 'auto',
            writeBack: { comment: false, close: false, status: false },
          },
        ],
      },
    ]);
    expect({ secrets, warnings }).toEqual({ secrets: [], warnings: [] });
  });

  test('keeps what it says', () => {
    const { workspaces, secrets } = loadText(
      `
$schema: ../schema.json
name: other
workspace: { url: "https://work.example.com/api/v1/", id: w-1, apiKey: "literal-key", api: { versionHeader: V }, statuses: { in_progress: InProgress } }
quota: { requests: 100, window: 1h, burst: 10, burstWindow: 90s, share: 1, concurrency: 2 }
mirror: off
retention: { bodies: 1d, deliveries: 2d }
guard: { removals: 0, creations: off }
connections:
  a: { connector: forge, projects: [one], token: "literal-token", poll: 30s, sweep: 12h, mirror: record }
  b: { connector: tracker, poll: off, webhookSecrets: "\${HOOK}" }
  c: { connector: tracker, poll: "*/10 6-20 * * mon-fri", webhookSecrets: ["\${HOOK}", "${SECRET}-2"] }
`,
      { HOOK: SECRET },
    );
    expect(workspaces[0]).toMatchObject({
      name: 'other',
      workspace: {
        url: 'https://work.example.com/api/v1',
        id: 'w-1',
        apiKey: 'literal-key',
        api: { versionHeader: 'V' },
        statuses: { in_progress: 'InProgress' },
      },
      quota: { requests: 100, window: 3_600_000, burst: 10, burstWindow: 90_000, share: 1, concurrency: 2 },
      retention: { bodies: 86_400_000, deliveries: 172_800_000 },
      guard: { removals: 0, creations: Number.POSITIVE_INFINITY },
      gateway: { fresh: 15_000, wait: 20_000, keyPrefix: 'wsk_' },
      connections: [
        { name: 'a', poll: { everyMs: 30_000 }, sweep: { everyMs: 43_200_000 }, mirror: 'record', webhookSecrets: [] },
        { name: 'b', poll: 'off', sweep: 'off', mirror: 'off', webhookSecrets: [SECRET] },
        { name: 'c', poll: { cron: '*/10 6-20 * * mon-fri' }, webhookSecrets: [SECRET, `${SECRET}-2`] },
      ],
    });
    expect([...secrets].sort()).toEqual([SECRET, `${SECRET}-2`, 'literal-key', 'literal-token'].sort());
  });
});

describe('problems', () => {
  test('all of them at once, over all files, with places and suggestions', () => {
    const lines = problemsOf({
      'a.yaml': `
nmae: x
workspace:
  apikey: k
quota:
  requests: many
conections: {}
`,
      'b.yaml': `
connections:
  Main:
    connector: forge
    projects: [one]
  main:
    connector: forje
  other:
    connector: forge
    projects: [one]
    webhook_secrets: x
    login: { kind: app, id: 1, name: x }
    webhookSecrets: [short]
    poll: sometimes
  idle:
    connector: forge
    projects: [3]
    poll: off
`,
      'c.yaml': 'connections:\n\tmain: 1\n',
    });
    expect(lines).toEqual([
      'a.yaml:2:1: missing key "connections"',
      'a.yaml:2:1: unknown key "nmae" (did you mean "name"?)',
      'a.yaml:4:3: workspace: unknown key "apikey" (did you mean "apiKey"?)',
      'a.yaml:6:13: quota.requests: expected number, received string',
      'a.yaml:7:1: unknown key "conections" (did you mean "connections"?)',
      'b.yaml:3:3: connections.Main: expected lower-case letters, digits and hyphens, at most 40 of them',
      'b.yaml:7:16: connections.main.connector: unknown connector; there are: forge, tracker (did you mean "forge"?)',
      'b.yaml:11:5: connections.other: unknown key "webhook_secrets" (did you mean "webhookSecrets"?)',
      'b.yaml:12:32: connections.other.login: unknown key "name"',
      'b.yaml:13:22: connections.other.webhookSecrets#1: a webhook secret has at least 16 characters; use the one from the provider, or make one with: openssl rand -hex 32',
      'b.yaml:14:11: connections.other.poll: expected a duration such as 5m, a cron expression, or off',
      'b.yaml:17:16: connections.idle.projects#1: expected string, received number',
      'b.yaml:18:11: connections.idle.poll: nothing would ever come in: set webhookSecrets, or let it poll',
      'c.yaml:2:1: not valid YAML: Tabs are not allowed as indentation',
    ]);
  });

  test.each<[what: string, text: string, line: string]>([
    ['nothing', '# empty\n', '1:1: the configuration is empty'],
    ['a merge key', `${FORGE}\n<<: { mirror: off }`, '2:1: unknown key "<<"'],
    ['an alias in itself', 'connections: &x { a: *x }', '1:22: an alias must not lie inside its own anchor'],
    ['a dangerous key', `${FORGE}\n__proto__: {}`, '2:1: unknown key "__proto__"'],
    ['no connection', 'connections: {}', '1:1: connections: nothing would ever come in: add a connection'],
  ])('%s', (_what, text, line) => {
    expect(problemsOf({ 'work.yaml': text })).toEqual([`work.yaml:${line}`]);
  });

  test.each<[text: string, problem: string]>([
    [`connections: { a: { connector: forge, projects: [\${A}] } }`, 'inside [ ] and { } a variable needs quotes'],
    ['connections: { workspace: { connector: tracker } }', 'connections.workspace: this name is reserved'],
    [trackerOf(`webhookSecrets: [${SECRET}, ${SECRET}, ${SECRET}]`), 'webhookSecrets: at most two secrets'],
    [forgeOf('poll: "*/2 * * * *"'), 'a.poll: too often: with these'],
    [workspaceOf('url: "https://a:b@x", apiKey: k'), 'url: an address must not contain a user or password'],
    [workspaceOf('url: "https://x"'), 'workspace.url: url needs apiKey beside it'],
    [workspaceOf('apiKey: k'), 'apiKey needs url beside it; the embedded service makes its own key'],
    [statusesOf('qa: { word: QA, after: qa }'), 'statuses.qa.after: expected a status that has a rank'],
    [`quota: { burst: 1, share: 0.8 }\n${FORGE}`, 'quota.share: this share leaves no request at all'],
    [`retention: { deliveries: 1d }\n${FORGE}`, 'delivery ids must be kept at least as long as bodies'],
  ])('%j', (text, problem) => {
    expect(problemsOf({ 'work.yaml': text })).toEqual([expect.stringContaining(problem)]);
  });

  test('a bomb of aliases is refused, quickly', () => {
    const text = chain(30, 'x', (previous) => `[${previous}, ${previous}]`);
    expect(problemsOf({ 'work.yaml': text })).toEqual([
      'work.yaml:1:1: too many aliases: at most 50 expansions are allowed',
    ]);
  });

  test.each([1, 20])('%d aliases that nest too many lists are refused before the stack overflows', (length) => {
    const text = chain(length, '', (previous) => '['.repeat(200) + previous + ']'.repeat(200));
    const connections = `connections: { main: { connector: forge, projects: *a${length - 1} } }`;
    expect(problemsOf({ 'work.yaml': text + connections })).toEqual([
      'work.yaml:1:1: too deep: at most 100 levels of nesting are allowed',
    ]);
  });

  test('shows no value of a variable that stands where a name is expected', () => {
    const text = `rules: { links: [{ pattern: x, connection: "\${SECRET}" }] }\nconnections: { main: { connector: forge, projects: [one] } }`;
    const load = () => loadText(text, { SECRET: 'a-secret-of-somebody' });
    expect(load).toThrow('no connection is called "[secret]"; there are: main');
  });

  test('warns of two files for one workspace, and rejects them if both have rules for statuses', () => {
    const file = (id: string, key: string, more = '') =>
      `workspace: { url: https://w.example, id: ${id}, apiKey: ${key} }\n${more}${FORGE}`;
    const rules = 'rules: { workflow: { preset: standard } }\n';
    const files = { 'a.yaml': file('acme', 'one', rules), 'b.yaml': file('acme', 'two', rules) };
    expect(problemsOf(files)).toEqual([
      expect.stringMatching(
        /^b\.yaml:2:\d+: rules\.workflow: a \(.*a\.yaml\) has such rules for the same workspace acme/,
      ),
    ]);
    const warnings = (own: Record<string, string>) => load(folderOf(own)).warnings;
    expect(warnings({ 'a.yaml': file('acme', 'one'), 'b.yaml': file('acme', 'two') })).toEqual([
      expect.stringContaining('b and a use the same workspace of the server, but each counts only its own requests'),
    ]);
    const half = 'quota: { share: 0.5 }\n';
    expect(warnings({ 'a.yaml': file('acme', 'one', half), 'b.yaml': file('acme', 'two', half) })).toEqual([]);
    expect(warnings({ 'a.yaml': file('current', 'one'), 'b.yaml': file('current', 'two') })).toEqual([]);
  });

  test('the name of the database that belongs to the data folder', () => {
    expect(problemsOf({ 'a.yaml': `name: worksync\n${FORGE}`, 'worksync.yaml': FORGE })).toEqual([
      expect.stringMatching(/^a\.yaml:1:7: a workspace cannot be called "worksync"/),
      expect.stringMatching(/^worksync\.yaml:1:1: a workspace cannot be called "worksync"/),
      expect.stringMatching(/^worksync\.yaml:1:1: the workspace name "worksync" is already used/),
    ]);
    expect(`${RESERVED_NAME}.db`).toBe(INSTALLATION_FILE);
  });

  test('a value from a variable is never shown', () => {
    const canary = 'canary-value';
    const text = `connections: { main: { connector: "\${X}", poll: "\${X}", webhookSecrets: "\${X}" } }\nmirror: \${X}\nquota: { requests: "\${X}", window: "\${X}" }\nworkspace: { url: "\${X}" }`;
    const lines = problemsOf({ 'work.yaml': text }, { X: canary });
    expect(lines).toHaveLength(7);
    expect(lines.join('\n')).not.toContain(canary);
  });
});

describe('where the files are', () => {
  const text = (name: string) => `name: ${name}\n${MINIMAL}`;
  const names = (path: string | undefined, configFolder: string) =>
    loadConfig({ ...(path && { path }), configFolder, env: {}, connectors: [forge], apiOverrides }).workspaces.map(
      ({ name }) => name,
    );

  test('a file, or every *.yaml and *.yml of a folder in order', () => {
    const folder = folderOf({
      'b.yml': text('b'),
      'a.yaml': text('a'),
      '.c.yaml': 'x',
      'd.yaml.bak': 'x',
      'e.json': 'x',
    });
    expect(names(folder, '/nowhere')).toEqual(['a', 'b']);
    expect(names(join(folder, 'b.yml'), '/nowhere')).toEqual(['b']);
  });

  test("the config folder's workspaces, else its default", () => {
    const workspaces = { 'workspaces/one.yaml': text('one'), 'default.yaml': text('standard') };
    expect(names(undefined, folderOf(workspaces))).toEqual(['one']);
    expect(names(undefined, folderOf({ 'default.yaml': text('standard'), 'workspaces/.gitkeep': '' }))).toEqual([
      'standard',
    ]);
  });
});

describe('variables in files', () => {
  test('never become structure', () => {
    const { workspaces } = loadText(MINIMAL.replace('one', `"\${P}"`), { P: 'x] # , token: y' });
    expect(workspaces[0]?.connections[0]?.options).toMatchObject({ projects: ['x] # , token: y'] });
  });

  test('from files are secrets, and their files are known', () => {
    const folder = folderOf({ key: '-----BEGIN-----\nabc\n-----END-----\n' });
    const path = join(folder, 'key');
    chmodSync(path, 0o600);
    const text = `connections: { main: { connector: forge, projects: [one], token: "\${KEY}" } }`;
    const loaded = loadText(text, { KEY_FILE: path });
    const value = '-----BEGIN-----\nabc\n-----END-----';
    expect(loaded.workspaces[0]?.connections[0]?.options).toMatchObject({ token: value });
    expect(loaded).toMatchObject({ secrets: [value], secretSources: [path], warnings: [] });
  });
});

test('plain http to another machine is a warning [A19]', () => {
  const text = (url: string) => `workspace: { url: "${url}", apiKey: some-key }\n${MINIMAL}`;
  expect(loadText(text('http://localhost:1/api/v1')).warnings).toEqual([]);
  expect(loadText(text('http://127.0.0.1:1/api/v1')).warnings).toEqual([]);
  expect(loadText(text('http://work.example.com/api/v1')).warnings).toEqual([
    expect.stringMatching(/work\.yaml: workspace\.url is plain http, so the API key crosses the network unencrypted$/),
  ]);
});

test('a webhook secret that its vendor cannot use is a warning', () => {
  const text = `name: acme\nconnections: { own: { connector: generic, system: crm, webhookSecrets: ${'0123456789abcdef'.repeat(2)} } }`;
  const { warnings } = loadConfig({ text, path: '/absent', env: {}, connectors: [generic], apiOverrides });
  expect(warnings).toEqual([
    expect.stringMatching(/: connections\.own\.webhookSecrets: it is no signing token, .*whsec_/),
  ]);
});

describe('a text in place of files', () => {
  const read = (text: string, env = {}) =>
    loadConfig({ text, path: '/absent', env, connectors: [forge], apiOverrides });
  const workspace = (name: string) => `name: ${name}${MINIMAL}`;

  test('is one workspace, or several with --- between them; variables of it are filled in', () => {
    const token = 'a-token-of-some-length';
    const { workspaces, broken, secrets } = read(`${workspace('one')}    token: \${TOKEN}\n---\n${workspace('two')}`, {
      TOKEN: token,
    });
    expect(workspaces.map(({ name, file }) => [name, file])).toEqual([
      ['one', 'WORKSYNC_CONFIG_YAML'],
      ['two', 'WORKSYNC_CONFIG_YAML'],
    ]);
    expect([broken, secrets]).toEqual([[], [token]]);
  });

  test.each([
    ['no name', MINIMAL.trim(), ['1:1: the key name is missing: a variable has no file name that could stand for it']],
    [
      'one name twice',
      `${workspace('one')}---\n${workspace('one')}`,
      ['7:7: the workspace name "one" is already used by WORKSYNC_CONFIG_YAML'],
    ],
    [
      'faults of several documents, each at its line of the whole',
      `${workspace('one')}qouta: {}\n---\n${workspace('two')}mirorr: off\n`,
      ['6:1: unknown key "qouta" (did you mean "quota"?)', '13:1: unknown key "mirorr" (did you mean "mirror"?)'],
    ],
  ])('is refused as a whole: %s', (_what, text, problems) => {
    const error = refusal(() => read(text));
    expect(error.code).toBe('config_invalid');
    expect(error.message.split('\n')).toEqual(problems.map((problem) => `WORKSYNC_CONFIG_YAML:${problem}`));
  });

  test('is shown without its secrets and comments, and without the other workspaces', () => {
    const secret = 'a-secret-of-somebody';
    const second = (value: string, block: string, comment = '') => `---
name: two${comment && ` # before: ${secret}`}
list: { webhookSecrets: [ ${value}, "\${OTHER}" ] }
privateKey: ${block}
${comment && `# webhookSecrets:\n#   - ${secret}\n`}connections: {}
web:${comment}
  - https://boards.example.com/a#b${comment}
`;
    const before = second(secret, `|\n  ${secret}\n  more`, ` # ${secret}`);
    const shown = textWithoutSecrets(`# ${secret}\n\nname: one\n${before}# ${secret}\n---\nname: three\n`, 'two');
    expect(shown).toBe(second(`"\${SECRET}"`, `"\${SECRET}"`));
    expect(textWithoutSecrets(`name: one\n---\nname: "\${NAME}"\n`, 'two')).toBe('');
  });
});

test('shows no value where it stands in the place of a key', () => {
  const secret = 'a-secret-of-somebody';
  const texts = [`? ["\${SECRET}"]\n: 1`, `name: &a "\${SECRET}"\n*a : 1`, `? { token: "\${SECRET}" }\n: 1`];
  for (const text of texts) {
    const load = () =>
      loadText(`connections: { main: { connector: forge, projects: [one] } }\n${text}`, { SECRET: secret });
    expect(load).toThrow(/a key must be plain text/);
    expect(load).not.toThrow(secret);
  }
});

describe('rules', () => {
  test('take one value for a list of it', () => {
    const [config] = loadText(`${FORGE}
rules:
  links: [{ pattern: 'T(\\d+)', place: branch, task: 'BUG-$1', connection: ma* }]
  triage:
    - { when: { labels: a, status: [open] }, create: bug, priority: high, since: 2026-01-31 }
    - { create: nothing, since: always }
workspace: { web: https://boards.example.com/acme/ }
users: { main: { ann: u1 }, forge: { bo: u2 }, email: { c@x.example: u3 } }
`).workspaces;
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

  test('read the words of the previous version, with a notice for each', () => {
    const written = `rules:
  triage: [{ when: { status: [open, done] }, create: bug }]
  workflow: { rules: [{ when: { workItem: started }, set: { status: in_progress } }] }
connections:
  forge: { connector: forge, projects: [one] }
  stories: { connector: shortcut, token: t, teams: [web], doneState: Shipped }`;
    const { workspaces, warnings } = loadText(written, {}, [forge, shortcut]);
    const present = written
      .replace('[open, done]', '[open, completed, dropped, done]')
      .replace('workItem: started', 'workItem: in_progress')
      .replace('doneState', 'completedStatus');
    const expected = loadText(present, {}, [forge, shortcut]);
    const withoutFile = ({ file: _file, ...config }: WorkspaceConfig) => config;
    expect(workspaces.map(withoutFile)).toEqual(expected.workspaces.map(withoutFile));
    expect(workspaces[0]?.connections[1]?.options).toMatchObject({ completedStatus: 'Shipped' });
    expect(warnings.map((line) => line.replace(/^.*\/work.yaml:/, ''))).toEqual([
      expect.stringContaining('2:22: rule 1 of rules.triage: when.status: write "completed" or "dropped" for "done"'),
      '3:43: rule 1 of rules.workflow: when.workItem: write "in_progress" for "started"; the next version no longer reads it in this sense',
      expect.stringContaining('6:59: connections.stories.doneState: the key is called "completedStatus"'),
    ]);
  });

  const LINKS = (rule: string) => `rules: { links: [{ ${rule} }] }`;
  const TRIAGE = (rule: string) => `rules: { triage: [{ ${rule} }] }`;
  const WORKFLOW = (when: string, more: string) => `rules: { workflow: { rules: [{ when: { ${when} }, ${more} }] } }`;
  test.each<[text: string, message: string]>([
    [LINKS("pattern: 'x/(a)', task: '$1-$2'"), 'rule 1 of rules.links: task: $2 is no group of the pattern'],
    [LINKS("pattern: '((a?){50}){50}'"), 'rule 1 of rules.links: pattern: '],
    [TRIAGE("create: bug, title: '{who}'"), 'rule 1 of rules.triage: title: expected a text with no other variables'],
    [TRIAGE('when: { connection: [main, mian] }, create: bug'), '"mian"; there are: main (did you mean "main"?)'],
    [LINKS('pattern: T1, task: BUG-1, connection: "jira*"'), 'rule 1 of rules.links: connection: no connection is'],
    [WORKFLOW('pullRequest: merged', 'set: { status: complete }'), '"previous" (did you mean "completed"?)'],
    [
      `workspace: { statuses: { qa: { word: QA } } }\n${WORKFLOW('pullRequest: open', 'set: { status: qs }')}`,
      '(did you mean "qa"?)',
    ],
    ['users: { forg: { ann: u1 } }', '"forg" is no connection, no connector, and not email (did you mean "forge"?)'],
  ])('refuses %s', (text, message) => {
    expect(problemsOf({ 'work.yaml': `${FORGE}\n${text}` }).join('\n')).toContain(message);
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
