import fc from 'fast-check';
import { expect, it } from 'vitest';
import { stringify } from 'yaml';
import { createSignatures, SIGNATURE_HEADER, type SignedRequest } from '../../src/cluster/replicas.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { taskOf, workspaceOf } from '../../src/gateway/destination.ts';
import { SyncError } from '../../src/model/errors.ts';
import { fillTemplate, parseTemplate, TEMPLATE_VARIABLES } from '../../src/model/task.ts';
import { loadConfig } from '../../src/platform/config/load.ts';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { patternText } from '../../src/platform/lib/pattern.ts';
import { createLinkRules } from '../../src/sync/reconcile/link-rules/link-rules.ts';
import { translateEvent } from '../../src/sync/reconcile/workspace-events.ts';
import { fieldsOf, wantedOf } from '../../src/web/deliveries/delivery-table.ts';
import { renderMarkdown } from '../../src/web/markdown.ts';
import { apiOverrides, fillPath, ROUTES, type Route, type RouteName } from '../../src/workspace-api/contract.ts';
import { createWorkspaceClient, encodeQuery } from '../../src/workspace-api/typed-client.ts';
import { cpuTimeOf } from '../support/cost/cpu-time.ts';
import { HOSTILE_ADDRESSES, HOSTILE_TEXTS, HOSTILE_TIMES } from '../support/faults/fuzz/hostile.ts';
import { type Tree, treeOf } from '../support/faults/fuzz/json-tree.ts';
import { bytesOf, damage, mutated, mutations } from '../support/faults/fuzz/mutations.ts';
import { fuzzed } from '../support/harness/depth.ts';
import { readDom } from '../support/harness/dom.ts';
import { pull } from '../support/rows/items.ts';

const hostile = fc.constantFrom(...HOSTILE_TEXTS, ...HOSTILE_ADDRESSES, ...HOSTILE_TIMES);
const SIGNS = [
  ...'\n·\n\n·# ·- ·> ·`·```\n·|·|-|-|\n·](·[·![·)·<·>·*·__·&lt;·&#x6a;· ·{·}·{title}·:·#1'.split('·'),
  ...['${', '$$', 'fixes ', 'ENG-1', 'acme/api#12', 'https://'],
];
/** Texts made of what means something. */
const text = fc
  .array(fc.oneof(hostile, fc.constantFrom(...SIGNS), fc.string({ unit: 'binary', maxLength: 8 })), { maxLength: 12 })
  .map((parts) => parts.join(''));

/** Milliseconds for a text of some hundred characters, many times what it takes. */
const SOME = 500;

function isClean(): void {
  expect([({} as { polluted?: unknown }).polluted, Object.keys(Object.prototype)]).toEqual([undefined, []]);
}

it('the links of any text are named by what a database keeps, and none of it acts', () => {
  const rules = createLinkRules({
    trailers: ['Task', 'Refs'],
    links: [{ pattern: patternText('(?:task|bug)[ _]?([0-9]+)'), task: 'BUG-$1' }],
    addresses: ['https://tasks.example/w/acme'],
    grammars: connectors.map(({ id, publicHost, grammar }) => ({ connector: id, host: publicHost, grammar })),
  });
  const readers = connectors.map(({ id, grammar }) => ({ name: id, grammar }));
  fc.assert(
    fc.property(text, text, fc.constantFrom(...readers), (title, description, reader) => {
      const item = pull({
        title: title.toWellFormed(),
        description: description.toWellFormed(),
        headBranch: title.toWellFormed(),
      });
      let mentions: ReturnType<typeof rules.mentionsOf> = [];
      expect(cpuTimeOf(() => (mentions = rules.mentionsOf(item, reader)))).toBeLessThan(SOME);
      expect(new Set(mentions.map(({ name }) => name)).size).toBe(mentions.length);
      for (const { name, text: shown } of mentions) {
        expect(name.isWellFormed() && name.length <= 2_100 && shown.length <= 120).toBe(true);
      }
    }),
    { numRuns: fuzzed(20_000) },
  );
});

it('a template is filled with texts as they are, or is none', () => {
  const values = fc.record(
    Object.fromEntries(TEMPLATE_VARIABLES.map((name) => [name, text])) as Record<
      (typeof TEMPLATE_VARIABLES)[number],
      typeof text
    >,
  );
  fc.assert(
    fc.property(text, values, (template, given) => {
      const pieces = parseTemplate(template);
      if (pieces === undefined) return;
      const plain = pieces.map((piece) => (typeof piece === 'string' ? piece : given[piece.name])).join('');
      // Nothing in a value is read as a variable again.
      expect(fillTemplate(template, given)).toBe(plain);
    }),
    { numRuns: fuzzed(5_000) },
  );
});

const ELEMENTS = new Set(
  'h1 h2 h3 h4 h5 h6 p a ul ol li code pre strong em del blockquote hr br table thead tbody tr th td div input'.split(
    ' ',
  ),
);
const ATTRIBUTES: Readonly<Record<string, readonly string[]>> = {
  ...{
    a: ['href', 'rel'],
    code: ['class'],
    div: ['class', 'role', 'aria-label', 'tabindex'],
    tr: ['id'],
    ol: ['start'],
  },
  ...{ input: ['checked', 'disabled', 'type'], th: ['align'], td: ['align'] },
  ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((depth) => [`h${depth}`, ['id']])),
};

it('Markdown becomes text, structure, and links that the caller made', () => {
  fc.assert(
    fc.property(text, (source) => {
      let page = '';
      const linkOf = (href: string) =>
        href.length % 2 === 0 ? `/help/${encodeURIComponent(href.toWellFormed())}` : undefined;
      expect(cpuTimeOf(() => (page = renderMarkdown(source, { linkOf }).text))).toBeLessThan(SOME);
      for (const { name, attribs } of readDom(page).all()) {
        expect(ELEMENTS).toContain(name);
        expect(ATTRIBUTES[name] ?? []).toEqual(expect.arrayContaining(Object.keys(attribs)));
        expect(attribs['href'] ?? '/help/').toMatch(/^\/help\//);
      }
    }),
    { numRuns: fuzzed(20_000) },
  );
});

it('a query says again what it was made of, and the page’s own means one of what there is', () => {
  fc.assert(
    fc.property(fc.dictionary(text, fc.oneof(text, fc.array(text), fc.constant(undefined))), (given) => {
      const wellFormed = (value: string) => value.toWellFormed();
      const wanted = Object.entries(given).flatMap(([name, values]) => {
        return [values].flat().flatMap((value) => (value === undefined ? [] : [[wellFormed(name), wellFormed(value)]]));
      });
      expect([...new URLSearchParams(encodeQuery(given))]).toEqual(wanted);
    }),
    { numRuns: fuzzed(5_000) },
  );
  const names = ['about', 'state', 'connection', 'source', 'own'];
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), text), (given) => {
      const wanted = wantedOf(new Map(Object.entries(given)));
      expect(wantedOf(new Map(Object.entries(fieldsOf(wanted))))).toEqual(wanted);
    }),
    { numRuns: fuzzed(5_000) },
  );
});

it('a path names one workspace or task, of one segment, and an id never leaves its own [A6]', () => {
  const path = fc.array(
    fc.oneof(fc.constantFrom('/', 'workspaces', 'tasks', '..', '.', '%2f', '%2e%2e', '\\', '?', '#'), text),
    { maxLength: 9 },
  );
  fc.assert(
    fc.property(path, (parts) => {
      for (const named of [workspaceOf(parts.join('')), taskOf(parts.join(''))])
        if (named !== undefined) expect(named).not.toMatch(/^$|\//);
    }),
    { numRuns: fuzzed(10_000) },
  );
  const routes = Object.values(ROUTES).map(({ path: template }) => template);
  fc.assert(
    fc.property(fc.constantFrom(...routes), text, (template, id) => {
      const ids = Object.fromEntries([...template.matchAll(/\{(\w+)\}/g)].map((match) => [match[1] as string, id]));
      const plain = template.replaceAll(/\{\w+\}/g, 'x');
      const filled = attempt(() => fillPath(template, ids));
      if (filled === undefined) return;
      // The shape does not depend on the meaning of the id, also after parsing.
      const parsed = new URL(`https://api.example/v1${filled}`);
      expect([parsed.pathname, parsed.search + parsed.hash]).toEqual([`/v1${filled}`, '']);
      expect(filled.split('/').length).toBe(plain.split('/').length);
    }),
    { numRuns: fuzzed(10_000) },
  );
});

function attempt<Value>(work: () => Value): Value | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

const REQUEST: SignedRequest = {
  method: 'POST',
  url: '/admin/workspaces/acme/pause',
  headers: { 'content-type': 'application/json' },
};

it('no signature of a replica is believed that is not letter for letter a right one', () => {
  const random = systemRandom();
  const replica = createSignatures(random.bytes(32), 'one', { now: () => 1_000 }, random);
  const good = replica.sign(REQUEST, Buffer.from('{}'), 'me', { role: 'admin', workspaces: null, ip: '192.0.2.1' });
  fc.assert(
    fc.property(editsOf(good), (made) => {
      const headers = { ...REQUEST.headers, [SIGNATURE_HEADER]: made as string };
      expect(replica.verify({ ...REQUEST, headers }, 'me')).toBe('wrong');
    }),
    { numRuns: fuzzed(100_000) },
  );
  const headers = { ...REQUEST.headers, [SIGNATURE_HEADER]: good };
  expect(replica.verify({ ...REQUEST, headers }, 'me')).toMatchObject({ identity: { role: 'admin' } });
});

function editsOf(good: string) {
  const edit = fc.record({
    at: fc.nat(good.length),
    cut: fc.nat(3),
    put: fc.oneof(fc.constant(''), hostile, fc.string({ unit: 'binary', maxLength: 4 })),
  });
  const edited = fc.array(edit, { minLength: 1, maxLength: 4 }).map((edits) => {
    return edits.reduce((made, { at, cut, put }) => made.slice(0, at) + put + made.slice(at + cut), good);
  });
  const spelled = fc.constantFrom(
    good.toUpperCase(),
    good.toLowerCase(),
    `${good},${good}`,
    ` ${good}`,
    `${good}\n`,
    [good],
    [good, good],
  );
  return fc.oneof({ weight: 9, arbitrary: edited }, { weight: 1, arbitrary: spelled }).filter((made) => made !== good);
}

const CONFIG = {
  name: 'acme',
  workspace: { url: 'https://work.example.com/api/v1', apiKey: `\${API_KEY}` },
  connections: {
    github: {
      connector: 'github',
      repositories: ['acme/api', 'acme/*'],
      token: `\${GITHUB_TOKEN:-none}`,
      webhookSecrets: [`\${HOOK:?set it}`],
      poll: '5m',
    },
    jira: {
      connector: 'jira',
      site: 'acme',
      cloudId: '11223344-a1b2-4b33-8444-def123456789',
      projects: ['ENG'],
      email: 'a@example.com',
      token: '$$',
    },
  },
  rules: {
    links: [{ pattern: 'bug_([0-9]+)', task: 'BUG-$1' }],
    triage: [{ when: { connection: ['jira'], text: 'crash' }, create: 'bug', title: '{title} ({identifier})' }],
  },
};
const ENV = { API_KEY: 'wsk_0123456789', GITHUB_TOKEN: 'ghp_0123456789', HOOK: 'a-hook-secret-0123' };

/** The loader of the daemon: right, or wrong with a place and a reason. */
function load(source: string): 'right' | 'wrong' {
  try {
    loadConfig({ text: source, env: ENV, connectors, apiOverrides });
    return 'right';
  } catch (error) {
    if (!(error instanceof SyncError) || error.code !== 'config_invalid') throw error;
    expect(error.message).not.toMatch(/wsk_0123456789|ghp_0123456789|a-hook-secret-0123/);
    return 'wrong';
  }
}

it('a configuration is right, or wrong at a place, whatever it says', () => {
  expect(load(stringify(CONFIG))).toBe('right');
  const seen = new Set<string>(['right']);
  const tree = treeOf(CONFIG);
  const read = (source: string) => {
    // The parser itself limits aliases and nesting.
    expect(cpuTimeOf(() => seen.add(load(source)))).toBeLessThan(5_000);
    isClean();
  };
  // JSON is YAML.
  fc.assert(
    fc.property(mutations, damage, (changes, harm) => read(bytesOf(mutated(tree, changes), harm).toString('utf8'))),
    { numRuns: fuzzed(1_500) },
  );
  const yaml = stringify(CONFIG);
  const edit = fc.record({
    at: fc.nat(yaml.length),
    cut: fc.nat(20),
    put: fc.oneof(
      text,
      fc.constantFrom(
        ...'&a ·*a·!!js/function ·<<: *a·---\n·...\n·%YAML 1.1\n·? ·: ·|\n·>-\n·\t·}·!!binary '.split('·'),
        ...['${', `\${API_KEY_FILE}`],
      ),
    ),
  });
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 4 }), (edits) => {
      read(edits.reduce((made, { at, cut, put }) => made.slice(0, at) + put + made.slice(at + cut), yaml));
    }),
    { numRuns: fuzzed(1_500) },
  );
  expect([...seen].toSorted()).toEqual(['right', 'wrong']);
});

const TIME = '2026-03-02T08:00:00Z';
const TASK = {
  ...{ taskId: 'tsk_1', key: 'BUG-1', title: 'T', status: 'open', workspaceId: 'ws_1', source: null },
  ...{ createdAt: TIME, updatedAt: TIME },
};
const URL_OF_ONE = 'https://github.com/acme/api/pull/1';
const RECORD = {
  ...{ provider: 'github', repoId: '1', identifier: '1', title: 'T', headBranch: 'a', baseBranch: 'main' },
  ...{ state: 'open', url: URL_OF_ONE, taskIds: ['tsk_1'], createdAt: TIME, updatedAt: TIME, labels: ['a'] },
};
const LINK = { workItemId: 'wi_1', taskId: 'tsk_1', url: URL_OF_ONE, externalId: 'x', provider: 'github' };
const ANSWERS: Partial<Record<RouteName, object>> = {
  getTask: TASK,
  listTasks: { tasks: [TASK, TASK], nextCursor: 'next' },
  listPullRequests: { pullRequests: [RECORD], nextCursor: null },
  createPullRequest: RECORD,
  listWorkItems: { workItems: [LINK] },
  addWorkItem: LINK,
};

it('an answer of the workspace is what the contract says, or refused [A18]', async () => {
  const seen = new Set<string>();
  const routes = Object.entries(ANSWERS).map(([name, answer]) => ({ name: name as RouteName, tree: treeOf(answer) }));
  const status = fc.constantFrom(200, 200, 200, 200, 201, 206, 302, 400, 401, 409, 422, 429, 500);
  const headers = fc.dictionary(
    fc.constantFrom('retry-after', 'etag', 'x-quota-remaining', 'content-type', 'date'),
    text,
    { maxKeys: 2 },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...routes),
      mutations,
      damage,
      status,
      headers,
      async ({ name, tree }, changes, harm, given, more) => {
        const body = bytesOf(mutated(tree, changes), harm);
        const client = createWorkspaceClient<null>({
          workspaceId: 'ws_1',
          send: async () => ({ status: given, headers: more, body }),
        });
        const ask = client[name] as (parameters: object, context: null) => Promise<{ readonly body: unknown }>;
        const ended = await ask({ taskId: 'tsk_1', body: {} }, null).then(
          (answer) => {
            expect((ROUTES[name] as Route).response?.safeParse(answer.body).success ?? true).toBe(true);
            return 'read';
          },
          (error: unknown) => (error instanceof SyncError && error.code !== 'internal' ? 'refused' : String(error)),
        );
        seen.add(ended);
        isClean();
      },
    ),
    { numRuns: fuzzed(10_000) },
  );
  expect([...seen].toSorted()).toEqual(['read', 'refused']);
});

it('an event of the workspace is what the contract says, or goes into quarantine', () => {
  const envelope = (type: string, data: object) =>
    treeOf({ specversion: '1.0', id: 'e', type, source: '/', time: TIME, workspaceid: 'ws_1', data });
  const events: Tree[] = [
    envelope('task.created', { task: TASK }),
    envelope('work_item.created', { work_item: LINK }),
    envelope('pull_request.updated', { pull_request: RECORD }),
    envelope('document.updated', { document: { documentId: 'doc_1', title: 'T', taskId: null, updatedAt: TIME } }),
  ];
  const seen = new Set<string>();
  fc.assert(
    fc.property(fc.constantFrom(...events), mutations, damage, (tree, changes, harm) => {
      try {
        seen.add(translateEvent({ body: bytesOf(mutated(tree, changes), harm), receivedAt: 1_000 }).outcome);
      } catch (error) {
        seen.add(error instanceof SyncError ? error.code : String(error));
      }
      isClean();
    }),
    { numRuns: fuzzed(10_000) },
  );
  expect([...seen].toSorted()).toEqual(['answer', 'delivery_malformed', 'ignored']);
});
