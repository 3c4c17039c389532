import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Connector, Translation } from '../../src/connectors/connector.ts';
import { github } from '../../src/connectors/github/index.ts';
import { slim, slimIssue } from '../../src/connectors/github/schema.ts';
import { connectors } from '../../src/connectors/registry.ts';
import type { ItemReference, PullRequest, ReviewState, WorkItem } from '../../src/model/item.ts';

/**
 * Every payload that tells of one pull request becomes exactly that, or a reference to it; every other is ignored, with a
 * reason. What is expected stands in the table below, which knows nothing of the connectors; nothing but the payload
 * says which event it is.
 *
 * It runs over `@octokit/webhooks-examples` and the project's own fixtures.
 */

type Json = Readonly<Record<string, unknown>>;

/** Where a payload of one kind says what. */
interface Row {
  /** Whether a payload is of this kind. */ readonly is: (payload: Json) => boolean;
  readonly repoId: string;
  readonly number: string;
  /** Absent where the payload does not tell: then it becomes a reference. */
  readonly told?: {
    readonly title: string;
    readonly head: string;
    readonly base: string;
    readonly state: (payload: Json) => string | undefined;
    /** Facts that payloads of this kind tell; `undefined`: absent. */
    readonly facts?: (payload: Json) => Partial<PullRequest>;
  };
}

function at(payload: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((value, key) => (value as Json | null | undefined)?.[key], payload);
}

const has = (path: string) => (payload: Json) => typeof at(payload, path) === 'object' && at(payload, path) !== null;

function githubFacts(payload: Json): Partial<PullRequest> {
  const of = (path: string) => at(payload, `pull_request.${path}`);
  const isMember = (association: unknown) =>
    /^(OWNER|MEMBER|COLLABORATOR)$/.test(String(association)) ? (true as const) : undefined;
  const member = isMember(at(payload, 'review.author_association'));
  const review = has('review')(payload) && {
    reviewer: String(at(payload, 'review.user.login')),
    state: String(at(payload, 'review.state')).replace('changes_requested', 'changes') as ReviewState,
    at: String(at(payload, 'review.submitted_at')),
    ...(member && { isMember: member }),
  };
  const plain = {
    ...{ description: of('body'), url: of('html_url'), author: of('user') === null ? null : of('user.login') },
    ...{ createdAt: of('created_at'), headSha: of('head.sha'), mergedAt: of('merged_at'), draft: of('draft') },
  };
  return {
    ...(plain as Partial<PullRequest>),
    updatedAt: Date.parse(String(of('updated_at'))),
    closedAt: of('closed_at') as string | null,
    isPublic: of('base.repo.private') === false,
    isBot: of('user.type') === undefined ? undefined : of('user.type') === 'Bot',
    isAuthorMember: isMember(of('author_association')),
    isFork: of('head.repo.id') !== of('base.repo.id'),
    defaultBranch: of('base.repo.default_branch') as string,
    reviews: review ? { [String(at(payload, 'review.id'))]: review } : undefined,
  };
}

const GITLAB_STATES: Readonly<Record<string, string>> = { opened: 'open', closed: 'closed', merged: 'merged' };
const BITBUCKET_STATES: Readonly<Record<string, string>> = {
  OPEN: 'open',
  MERGED: 'merged',
  DECLINED: 'declined',
  SUPERSEDED: 'declined',
};

function gitlabRow(is: Row['is'], above: string): Row {
  return {
    is,
    repoId: 'project.id',
    number: `${above}.iid`,
    told: {
      title: `${above}.title`,
      head: `${above}.source_branch`,
      base: `${above}.target_branch`,
      state: (payload) => GITLAB_STATES[String(at(payload, `${above}.state`))],
    },
  };
}

const TABLE: Readonly<Record<string, readonly Row[]>> = {
  github: [
    {
      is: has('pull_request'),
      repoId: 'pull_request.base.repo.id',
      number: 'pull_request.number',
      told: {
        title: 'pull_request.title',
        head: 'pull_request.head.ref',
        base: 'pull_request.base.ref',
        state: (payload) => {
          if (at(payload, 'pull_request.state') === 'open') return 'open';
          return at(payload, 'pull_request.merged_at') === null ? 'closed' : 'merged';
        },
        facts: githubFacts,
      },
    },
    // Only comments tell of it so: what else happens to a pull request as to an issue (a milestone) changes nothing of it.
    {
      is: (payload) => has('issue.pull_request')(payload) && has('comment')(payload),
      repoId: 'repository.id',
      number: 'issue.number',
    },
  ],
  gitlab: [
    gitlabRow((payload) => payload['object_kind'] === 'merge_request', 'object_attributes'),
    gitlabRow((payload) => payload['object_kind'] === 'note' && has('merge_request')(payload), 'merge_request'),
  ],
  bitbucket: [
    {
      is: has('pullrequest'),
      repoId: 'repository.uuid',
      number: 'pullrequest.id',
      told: {
        title: 'pullrequest.title',
        head: 'pullrequest.source.branch.name',
        base: 'pullrequest.destination.branch.name',
        state: (payload) => BITBUCKET_STATES[String(at(payload, 'pullrequest.state'))],
      },
    },
  ],
};

interface Payload {
  readonly name: string;
  readonly bytes: Buffer;
}

function filesIn(folder: string): readonly Payload[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.json'));
  return names.map((name) => ({ name, bytes: readFileSync(join(folder, name)) }));
}

function octokitExamples(): readonly Payload[] {
  const root = createRequire(import.meta.url).resolve('@octokit/webhooks-examples/package.json');
  const servers = ['api.github.com', 'ghes-31', 'ghes-32', 'ghes-33', 'ghes-34', 'ghes-35'];
  return servers.flatMap((server) => {
    const text = readFileSync(root.replace('package.json', `${server}/index.json`), 'utf8');
    const groups = JSON.parse(text) as readonly { readonly name: string; readonly examples: readonly Json[] }[];
    return groups.flatMap(({ name, examples }) =>
      examples.map((example, index) => ({
        name: `${server} ${name} ${index}`,
        bytes: Buffer.from(JSON.stringify(example)),
      })),
    );
  });
}

const OCTOKIT = octokitExamples();
const FOLDERS = new URL('../../src/connectors/', import.meta.url).pathname;

function payloadsOf(id: string): readonly Payload[] {
  return [...(id === 'github' ? OCTOKIT : []), ...filesIn(join(FOLDERS, id, 'fixtures'))];
}

/** As `worksync translate` does it. */
function translate(connector: Connector<unknown>, { bytes }: Payload): Translation {
  const event = connector.eventOf?.(JSON.parse(bytes.toString()));
  if (event === undefined) return { outcome: 'ignored', reason: 'event_not_recognised' };
  return connector.translate({ source: 'webhook', event, body: bytes }, connector.unrestricted?.());
}

function rowFor(id: string, payload: unknown): Row | undefined {
  if (typeof payload !== 'object' || payload === null) return undefined;
  return TABLE[id]?.find(({ is }) => is(payload as Json));
}

function keyOf({ id, publicHost }: Connector<unknown>, row: Row, payload: Json): string {
  return `${id}:${publicHost}:${String(at(payload, row.repoId))}:pull:${String(at(payload, row.number))}`;
}

/** The one thing that the payload became. */
function only(translation: Translation): PullRequest | ItemReference {
  if (translation.outcome === 'ignored') throw new Error(`is ignored: ${translation.reason}`);
  const all = [...(translation.outcome === 'items' ? translation.items : []), ...(translation.references ?? [])];
  expect(all).toHaveLength(1);
  return all[0] as PullRequest | ItemReference;
}

describe.each(Object.keys(TABLE))('%s', (id) => {
  const connector = connectors.find((each) => each.id === id) as Connector<unknown>;
  const payloads = payloadsOf(id).map((given) => ({ ...given, payload: JSON.parse(given.bytes.toString()) as Json }));
  const tellers = payloads.flatMap((given) => {
    const row = rowFor(id, given.payload);
    return row === undefined ? [] : [{ ...given, row }];
  });
  const others = payloads.filter(({ payload }) => rowFor(id, payload) === undefined);

  it('has payloads of every kind in the table', () => {
    for (const row of TABLE[id] ?? []) expect(tellers.some((teller) => teller.row === row)).toBe(true);
    expect(others.length).toBeGreaterThan(0);
  });

  it.each(tellers)('$name tells of one', (given) => {
    const { payload, row } = given;
    const became = only(translate(connector, given));
    expect(became).toMatchObject({ kind: 'pull_request', key: keyOf(connector, row, payload) });
    if ('locator' in became) return;
    expect({
      number: became.identifier,
      state: became.state,
      head: became.headBranch,
      base: became.baseBranch,
      title: became.title,
    }).toEqual({
      number: String(at(payload, row.number)),
      state: row.told?.state(payload),
      head: at(payload, row.told?.head ?? ''),
      base: at(payload, row.told?.base ?? ''),
      title: at(payload, row.told?.title ?? ''),
    });
    for (const [name, value] of Object.entries(row.told?.facts?.(payload) ?? {}))
      expect({ [name]: became[name as keyof PullRequest] }).toEqual({ [name]: value });
  });

  it.each(others)('$name is ignored', (given) => {
    expect(translate(connector, given)).toEqual({ outcome: 'ignored', reason: expect.stringMatching(/^[a-z_]+$/) });
  });
});

describe('GitHub', () => {
  const options = github.options.parse({ token: 'x', repositories: ['*/*'], issues: true });
  const examples = OCTOKIT.map(({ name, bytes }) => {
    const payload = JSON.parse(bytes.toString()) as Json;
    return { name, bytes, event: name.split(' ')[1] as string, payload };
  });
  const issues = examples.filter(({ event }) => event === 'issues' || event === 'issue_comment');

  it.each(issues)('$name becomes exactly its issue, where issues are followed', ({ event, bytes, payload }) => {
    const of = (path: string) => at(payload, `issue.${path}`);
    const [id, number, repoId] = [of('id'), of('number'), at(payload, 'repository.id')].map(String);
    const key = `github:github.com:issue:${id}`;
    const containerName = at(payload, 'repository.full_name');
    const translation = github.translate({ source: 'webhook', event, body: bytes }, options);
    const isLeft = event === 'issues' && /^(deleted|transferred)$/.test(String(payload['action']));
    // One of the examples says nothing of the state: the API is asked.
    if (isLeft || of('state') === undefined) {
      const references = 'references' in translation ? translation.references : [];
      expect(references?.[0]).toEqual({
        ...{ kind: 'work_item', key },
        locator: { repoId, id, number, repository: containerName },
      });
      return;
    }
    const item = only(translation) as unknown as WorkItem;
    expect(item).toMatchObject({
      ...{ kind: 'work_item', key, identifier: `#${number}`, containerId: repoId, containerName },
      ...{ title: of('title'), description: of('body'), url: of('html_url'), author: of('user.login') },
      ...{ createdAt: of('created_at'), updatedAt: Date.parse(String(of('updated_at'))) },
      state: of('state') === 'closed' ? 'done' : 'open',
    });
    expect(github.reference(item)).toMatchObject({ key, locator: { repoId, id, number } });
  });

  it('reads the same from a pull request or an issue that was slimmed', () => {
    const fetched = (event: string, content: unknown) =>
      github.translate({ source: 'fetch', event, body: Buffer.from(JSON.stringify(content)) }, options);
    for (const { payload } of examples.filter(({ event }) => event.startsWith('pull_request'))) {
      const pull = payload['pull_request'];
      expect(fetched('pulls.get', slim(pull))).toEqual(fetched('pulls.get', pull));
      expect(JSON.stringify(slim(pull)).length).toBeLessThan(JSON.stringify(pull).length / 10);
    }
    const ofIssue = (issue: unknown) => fetched('issues.get', { repository: { id: 1, full_name: 'acme/api' }, issue });
    for (const { payload } of issues) expect(ofIssue(slimIssue(payload['issue']))).toEqual(ofIssue(payload['issue']));
  });
});
