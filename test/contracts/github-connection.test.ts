import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Connection } from '../../src/connectors/connector.ts';
import { github } from '../../src/connectors/github/index.ts';
import type { SyncError } from '../../src/errors/sync-error.ts';
import type { Item, ItemReference } from '../../src/model/item.ts';
import { type Exchange, fixture, linkTo, signal, useGithub } from '../support/github-connection.ts';

const { connect, script } = useGithub();

const URL_OF_HOOK = 'https://sync.example.com/webhooks/acme/api';
const REPOSITORY = { id: 70100, full_name: 'acme/api', archived: false, fork: false, has_issues: true };
const pull = fixture('pulls.get');
const privateKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const app = {
  id: 4711,
  privateKey: privateKey.export({ type: 'pkcs1', format: 'pem' }) as string,
  installationId: 66,
};
const MINT: Exchange = {
  request: 'POST /app/installations/66/access_tokens',
  status: 201,
  answer: { token: 'ghs_one', expires_at: '2026-01-05T10:00:00Z' },
  answerHeaders: { date: 'Mon, 05 Jan 2026 09:00:00 GMT' },
};
const said = (message: string) => ({ message, documentation_url: 'https://docs.github.com/rest' });
const failure = (work: Promise<unknown>) =>
  work.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error as SyncError,
  );

function issue(number: number, more: object = {}) {
  return {
    id: 880_000 + number,
    number,
    state: 'open',
    title: `Issue ${number}`,
    body: null,
    html_url: `https://github.com/acme/api/issues/${number}`,
    repository_url: 'https://api.github.com/repos/acme/api',
    user: { login: 'ada' },
    labels: [{ name: 'bug' }],
    assignees: [],
    created_at: '2026-01-01T00:00:00Z',
    updated_at: '2026-01-05T08:00:00Z',
    ...more,
  };
}

function itemsOf(page: { event: string; body: Buffer }, source: 'poll' | 'fetch' = 'poll'): readonly Item[] {
  const options = github.options.parse({ repositories: ['acme/api'], issues: true });
  const translation = github.translate({ source, event: page.event, body: page.body }, options);
  return translation.outcome === 'items' ? translation.items : [];
}

describe('the scope', () => {
  it('sends no request where every repository is named', async () => {
    const { connection } = connect({ repositories: ['acme/api', 'acme/web', 7], exclude: ['acme/w*'] });
    expect(await connection.units(signal)).toEqual(['acme/api', '7']);
  });

  it('lists owners over all pages, and keeps what it read: later for free', async () => {
    const { connection, clock } = connect({ repositories: ['tools/cli', 'acme/a*'], exclude: ['acme/attic'] });
    const names = ['api', 'attic', 'web', 'app', 'ant', 'old', 'fork'];
    const list = names.map((name, at) => ({
      id: 100 + at,
      full_name: `acme/${name === 'old' ? 'a-old' : name === 'fork' ? 'a-fork' : name}`,
      archived: name === 'old',
      fork: name === 'fork',
    }));
    const page = (number: number, elements: readonly object[]): Exchange => ({
      request: `GET /orgs/acme/repos?type=all&per_page=100${number === 1 ? '' : `&page=${number}`}`,
      answer: elements,
      answerHeaders: {
        etag: `"${number}"`,
        ...(number < 4 ? linkTo(`/organizations/9/repos?type=all&per_page=100&page=${number + 1}`) : {}),
      },
    });
    script([page(1, list.slice(0, 2)), page(2, list.slice(2, 4)), page(3, list.slice(4, 6)), page(4, list.slice(6))]);
    expect(await connection.units(signal)).toEqual(['tools/cli', '100', '103', '104']);
    expect(await connection.units(signal)).toHaveLength(4);

    await clock.advance(16 * 60_000);
    const unchanged = [1, 2, 3, 4].map((number) => ({
      ...page(number, []),
      headers: { 'if-none-match': `"${number}"` },
      status: 304,
      answer: '',
    }));
    script(unchanged);
    expect(await connection.units(signal)).toEqual(['tools/cli', '100', '103', '104']);
  });

  it('takes in archived repositories and forks where the options say so', async () => {
    const { connection } = connect({ repositories: ['acme/*'], archived: true, forks: true, issues: true });
    script([
      {
        request: 'GET /orgs/acme/repos?type=all&per_page=100',
        answer: [
          { id: 1, full_name: 'acme/old', archived: true },
          { id: 2, full_name: 'acme/fork', fork: true },
        ],
      },
    ]);
    expect(await connection.units(signal)).toEqual(['1', 'issues:1', '2', 'issues:2']);
  });

  it('asks for a user where no organisation has the name', async () => {
    const { connection } = connect({ organizations: ['ada'], repositories: undefined });
    script([
      { request: 'GET /orgs/ada/repos?type=all&per_page=100', status: 404, answer: said('Not Found') },
      { request: 'GET /users/ada/repos?type=owner&per_page=100', answer: [{ id: 1, full_name: 'ada/open' }] },
      {
        request: 'GET /user/repos?affiliation=owner,collaborator&per_page=100',
        answer: [
          { id: 1, full_name: 'ada/open' },
          { id: 2, full_name: 'ada/hidden' },
          { id: 3, full_name: 'bob/other' },
        ],
      },
    ]);
    expect(await connection.units(signal)).toEqual(['1', '2']);
  });

  it('of an App is what its installation contains', async () => {
    const { connection } = connect({ token: undefined, app, repositories: undefined });
    script([
      MINT,
      {
        request: 'GET /installation/repositories?per_page=100',
        headers: { authorization: 'Bearer ghs_one' },
        answer: { total_count: 1, repositories: [REPOSITORY] },
      },
    ]);
    expect(await connection.units(signal)).toEqual(['70100']);
  });

  it.each([
    [500, 'server_failed'],
    [401, 'unauthorized'],
    [403, 'forbidden'],
  ])('cannot be told when the list answers %i', async (status, code) => {
    const { connection } = connect({ repositories: ['*/api'] });
    script([{ request: 'GET /user/repos?per_page=100', status, answer: said('no') }]);
    expect((await failure(connection.units(signal))).code).toBe(code);
  });

  it('fails where an answer is no list', async () => {
    const { connection } = connect({ repositories: ['*/api'] });
    script([{ request: 'GET /user/repos?per_page=100', answer: '<html></html>' }]);
    expect((await failure(connection.units(signal))).code).toBe('answer_malformed');
  });

  it('polls by its id what a pattern took in', async () => {
    const { connection } = connect({ organizations: ['acme'], repositories: undefined });
    script([
      {
        request: 'GET /repositories/70100/pulls?state=all&sort=updated&direction=desc&per_page=100',
        answer: [pull],
      },
    ]);
    const position = { unit: '70100', watermark: '2026-01-01T00:00:00Z', startedAt: '2026-01-05T09:00:00Z' };
    const page = await connection.poll(position, signal);
    if (page.outcome !== 'page') throw new Error(page.outcome);
    expect(itemsOf(page)).toMatchObject([{ repoId: '70100' }]);
  });

  it('of webhooks is decided by what they carry: name, id, archived, fork', () => {
    const event = fixture('pull_request.opened') as { repository: object; pull_request: { base: { repo: object } } };
    const outcome = (given: object, change: object = {}) => {
      const { base } = event.pull_request;
      const payload = {
        ...event,
        repository: { ...event.repository, ...change },
        pull_request: { ...event.pull_request, base: { ...base, repo: { ...base.repo, ...change } } },
      };
      return github.translate(
        { source: 'webhook', event: 'pull_request', body: Buffer.from(JSON.stringify(payload)) },
        github.options.parse({ token: 'x', ...given }),
      ).outcome;
    };
    expect(outcome({ repositories: ['acme/*'] })).toBe('items');
    expect(outcome({ organizations: ['acme'] })).toBe('items');
    expect(outcome({ organizations: ['acme'], exclude: ['acme/api'] })).toBe('ignored');
    expect(outcome({ organizations: ['acme'] }, { archived: true })).toBe('ignored');
    expect(outcome({ organizations: ['acme'], archived: true }, { archived: true })).toBe('items');
    expect(outcome({ organizations: ['acme'] }, { fork: true })).toBe('ignored');
    expect(outcome({ repositories: ['acme/api'] }, { fork: true, archived: true })).toBe('items');
    // Renamed and transferred: the id is still the same.
    expect(outcome({ repositories: ['acme/api'] }, { full_name: 'other/gateway' })).toBe('ignored');
    expect(outcome({ repositories: [70100] }, { full_name: 'other/gateway' })).toBe('items');
  });
});

describe('the rate budget', () => {
  const LIST = 'GET /repos/acme/api/pulls?state=all&sort=updated&direction=desc&per_page=100';
  const position = { unit: 'acme/api', watermark: '2026-01-01T00:00:00Z', startedAt: '2026-01-05T09:00:00Z' };
  const left = (remaining: number, resource = 'core') => ({
    date: 'Mon, 05 Jan 2026 09:00:00 GMT',
    'x-ratelimit-limit': '5000',
    'x-ratelimit-remaining': String(remaining),
    'x-ratelimit-reset': String(Date.UTC(2026, 0, 5, 9, 30) / 1_000),
    'x-ratelimit-resource': resource,
  });
  const reference: ItemReference = {
    kind: 'pull_request',
    key: 'k',
    locator: { repoId: '70100', repository: 'acme/api', number: '12' },
  };
  const fetched: Exchange = { request: 'GET /repos/acme/api/pulls/12', answer: pull };

  it('stops polls before the limit is used up, and lets fetches go on', async () => {
    const { connection, clock } = connect();
    script([{ request: LIST, answer: [], answerHeaders: left(500) }, fetched]);
    await connection.poll(position, signal);
    const error = await failure(connection.poll(position, signal));
    expect(error).toMatchObject({ code: 'rate_limited', retryAfter: 30 * 60_000 + 1_000 });
    await connection.fetch(reference, signal);
    await clock.advance(31 * 60_000);
    script([{ request: LIST, answer: [] }]);
    await connection.poll(position, signal);
  });

  it('stops background work at half of the limit', async () => {
    const { connection } = connect();
    script([
      { request: LIST, answer: [], answerHeaders: left(2_400) },
      { request: LIST, answer: [] },
    ]);
    await connection.poll(position, signal);
    expect((await failure(connection.history({ unit: 'acme/api' }, signal))).code).toBe('rate_limited');
    expect((await failure(connection.sweep('acme/api', undefined, signal))).code).toBe('rate_limited');
    await connection.poll(position, signal);
  });

  it('counts only the limit of the REST API', async () => {
    const { connection } = connect();
    script([{ request: LIST, answer: [], answerHeaders: left(0, 'search') }, fetched]);
    await connection.poll(position, signal);
    expect(await connection.fetch(reference, signal)).toMatchObject({ event: 'pulls.get' });
  });
});

describe('issues', () => {
  const FIND: Exchange = { request: 'GET /repos/acme/api', answer: REPOSITORY };
  const FIRST = '/repos/acme/api/issues?state=open&sort=updated&direction=asc&per_page=100';
  const SINCE = '2026-01-04T23:50:00Z';
  const CHANGED = `/repos/acme/api/issues?state=all&sort=updated&direction=desc&per_page=100&since=${SINCE}`;
  const position = { unit: 'issues:acme/api', watermark: '2026-01-05T00:00:00Z', startedAt: '2026-01-05T09:00:00Z' };
  const { watermark: _, ...unknown } = position;

  it('have a unit of their own', async () => {
    const { connection } = connect({ issues: true });
    expect(await connection.units(signal)).toEqual(['acme/api', 'issues:acme/api']);
  });

  it('are walked along the links and their cursors, without the pull requests in the list', async () => {
    const { connection } = connect({ issues: true });
    const cursor = (count: number) => `${CHANGED}&after=Y3Vyc29y${count}&page=${count}`;
    const page = (count: number): Exchange => ({
      request: `GET ${count === 1 ? CHANGED : cursor(count)}`,
      answer: [issue(10 * count), issue(10 * count + 1, { pull_request: { url: 'x' } })],
      answerHeaders: {
        etag: `"${count}"`,
        date: 'Mon, 05 Jan 2026 10:00:00 GMT',
        ...(count < 5 ? linkTo(cursor(count + 1).replace('/repos/acme/api', '/repositories/70100')) : {}),
      },
    });
    script([FIND, ...[1, 2, 3, 4, 5].map(page)]);
    const keys: string[] = [];
    const etags: (string | undefined)[] = [];
    let next: string | undefined;
    do {
      const read = await connection.poll(next === undefined ? position : { ...position, page: next }, signal);
      if (read.outcome !== 'page') throw new Error(read.outcome);
      keys.push(...itemsOf(read).map(({ key }) => key));
      etags.push(read.etag);
      next = read.next;
    } while (next !== undefined);
    expect(keys).toEqual([10, 20, 30, 40, 50].map((number) => `github:github.com:issue:${880_000 + number}`));
    expect(etags).toEqual(['"1"', undefined, undefined, undefined, undefined]);
  });

  it('of an idle repository cost a 304', async () => {
    const { connection } = connect({ issues: true });
    const idle: Exchange = { request: `GET ${CHANGED}`, headers: { 'if-none-match': '"e"' }, status: 304 };
    script([FIND, idle, idle]);
    for (let cycle = 0; cycle < 2; cycle++)
      expect(await connection.poll({ ...position, etag: '"e"' }, signal)).toEqual({ outcome: 'unchanged' });
  });

  it('are first walked by the time of their change, so that closing one hides no other', async () => {
    const { connection } = connect({ issues: true });
    const at = (minute: number) => ({ updated_at: `2026-01-05T08:${String(minute).padStart(2, '0')}:00Z` });
    const next = linkTo('/repositories/70100/issues?state=open&sort=updated&direction=asc&per_page=100&page=2');
    script([
      FIND,
      { request: `GET ${FIRST}`, answer: [issue(1, at(1)), issue(2, at(5))], answerHeaders: next },
      {
        request: `GET ${FIRST}&since=2026-01-05T08:04:59Z`,
        answer: [issue(2, at(5)), issue(3, at(5))],
        answerHeaders: next,
      },
      { request: `GET ${FIRST}&page=2`, answer: [issue(4, at(9))] },
    ]);
    const first = await connection.poll(unknown, signal);
    expect(first).toMatchObject({ next: 'since:2026-01-05T08:04:59Z', newest: '2026-01-05T08:50:00.000Z' });
    const second = await connection.poll({ ...unknown, page: 'since:2026-01-05T08:04:59Z' }, signal);
    // A page that shares one second is gone on from along the link.
    expect(second).toMatchObject({ next: expect.stringMatching(/^link:1:.*page=2$/) });
    const third = await connection.poll({ ...unknown, page: (second as { next: string }).next }, signal);
    expect(third).not.toHaveProperty('next', expect.anything());
  });

  it('count as none where a repository has them switched off', async () => {
    const { connection } = connect({ issues: true });
    script([{ ...FIND, answer: { ...REPOSITORY, has_issues: false } }]);
    expect(await connection.poll(position, signal)).toEqual({ outcome: 'unchanged' });
    expect(itemsOf(await connection.history({ unit: 'issues:acme/api' }, signal))).toEqual([]);
  });

  it.each([
    [401, 'unauthorized'],
    [404, 'not_found'],
    [409, 'conflict'],
    [422, 'refused'],
    [502, 'server_failed'],
  ])('fail with %i as %s', async (status, code) => {
    const { connection } = connect({ issues: true });
    script([FIND, { request: `GET ${CHANGED}`, status, answer: said('no') }]);
    expect((await failure(connection.poll(position, signal))).code).toMatch(
      code === 'refused' ? /refused|answer_malformed/ : code,
    );
  });

  it('wait for a secondary limit', async () => {
    const { connection } = connect({ issues: true });
    const answer = said('You have exceeded a secondary rate limit.');
    script([FIND, { request: `GET ${CHANGED}`, status: 403, answer, answerHeaders: { 'retry-after': '90' } }]);
    expect(await failure(connection.poll(position, signal))).toMatchObject({
      code: 'rate_limited',
      retryAfter: 90_000,
    });
  });

  it('follow no link to another host', async () => {
    const { connection } = connect({ issues: true });
    const link = '<https://api.github.com.evil.example/repos/acme/api/issues?page=2>; rel="next"';
    script([FIND, { request: `GET ${CHANGED}`, answer: [], answerHeaders: { link } }]);
    expect((await failure(connection.poll(position, signal))).code).toBe('answer_malformed');
  });

  describe('one by one', () => {
    const reference: ItemReference = {
      kind: 'work_item',
      key: 'github:github.com:issue:880013',
      locator: { repoId: '70100', repository: 'acme/api', number: '13', id: '880013' },
    };
    const NAMED = 'GET /repos/acme/api/issues/13';
    const BY_ID = 'GET /repositories/70100/issues/13';

    it('are fetched with all their fields', async () => {
      const { connection } = connect({ issues: true });
      const whole = issue(13, {
        state: 'closed',
        state_reason: 'not_planned',
        body: 'Why?',
        type: { name: 'Bug' },
        labels: ['b', { name: 'a' }],
        assignees: [{ login: 'cho' }],
        repository_url: 'https://api.github.com/repos/acme/gateway',
      });
      script([{ request: NAMED, answer: whole }]);
      expect(itemsOf(await connection.fetch(reference, signal), 'fetch')).toEqual([
        {
          kind: 'work_item',
          key: reference.key,
          connector: 'github',
          host: 'github.com',
          containerId: '70100',
          containerName: 'acme/gateway',
          identifier: '#13',
          updatedAt: Date.UTC(2026, 0, 5, 8),
          url: 'https://github.com/acme/api/issues/13',
          title: 'Issue 13',
          description: 'Why?',
          author: 'ada',
          labels: ['a', 'b'],
          assignees: ['cho'],
          createdAt: '2026-01-01T00:00:00Z',
          state: 'done',
          rawState: 'closed (not_planned)',
          type: 'Bug',
        },
      ]);
    });

    it('are the same where the answer is large', async () => {
      const { connection } = connect({ issues: true });
      const moved = issue(13, { repository_url: 'https://api.github.com/repos/acme/gateway' });
      script([{ request: NAMED, answer: moved }]);
      const plain = await connection.fetch(reference, signal);
      script([{ request: NAMED, answer: { ...moved, reactions: 'x'.repeat(1_100_000) } }]);
      expect(await connection.fetch(reference, signal)).toEqual(plain);
      expect(itemsOf(plain, 'fetch')).toMatchObject([{ containerName: 'acme/gateway' }]);
    });

    it('are found by their own id where another repository took over the name', async () => {
      const { connection } = connect({ issues: true });
      script([
        { request: NAMED, answer: issue(13, { id: 5 }) },
        { request: BY_ID, answer: issue(13) },
      ]);
      expect(itemsOf(await connection.fetch(reference, signal), 'fetch')).toMatchObject([{ key: reference.key }]);
    });

    it.each([
      ['deleted', [{ request: NAMED, status: 410, answer: said('This issue was deleted') }]],
      [
        'deleted, in a repository that can be read',
        [
          { request: NAMED, status: 404, answer: said('Not Found') },
          { request: 'GET /repos/acme/api', answer: REPOSITORY },
        ],
      ],
      [
        'transferred',
        [
          {
            request: NAMED,
            status: 301,
            answerHeaders: { location: 'https://api.github.com/repositories/99/issues/3' },
          },
        ],
      ],
      [
        'transferred to where it has the same number',
        [
          {
            request: NAMED,
            status: 301,
            answerHeaders: { location: 'https://api.github.com/repositories/99/issues/13' },
          },
          { request: 'GET /repositories/99/issues/13', answer: issue(13, { id: 7 }) },
          { request: BY_ID, answer: issue(13, { id: 7 }) },
        ],
      ],
    ] satisfies [string, Exchange[]][])('are gone when they were %s', async (_, exchanges) => {
      const { connection } = connect({ issues: true });
      script(exchanges);
      expect(itemsOf(await connection.fetch(reference, signal), 'fetch')).toEqual([
        expect.objectContaining({ key: reference.key, identifier: '#13', containerId: '70100', gone: true }),
      ]);
    });

    it('are not called gone where the repository cannot be read', async () => {
      const { connection } = connect({ issues: true });
      script([
        { request: NAMED, status: 404, answer: said('Not Found') },
        { request: 'GET /repos/acme/api', status: 404, answer: said('Not Found') },
      ]);
      expect((await failure(connection.fetch(reference, signal))).code).toBe('not_found');
    });
  });
});

describe('history', () => {
  const LIST = '/repos/acme/api/pulls?state=all&sort=updated&direction=desc&per_page=100';
  const aged = (number: number, hour: number) => ({
    ...pull,
    number,
    updated_at: `2026-01-05T${String(hour).padStart(2, '0')}:00:00Z`,
  });
  const page = (count: number, hours: readonly number[], last = 9): Exchange => ({
    request: `GET ${LIST}${count === 1 ? '' : `&page=${count}`}`,
    answer: hours.map((hour) => aged(100 - hour, hour)),
    answerHeaders:
      count < last
        ? {
            link: `${linkTo(`${LIST}&page=${count + 1}`)['link']}, ${linkTo(`${LIST}&page=${last}`, 'last')['link']}`,
          }
        : {},
  });

  it('goes back to its time over many pages, newest first, and can continue at any page', async () => {
    script([page(1, [12, 11]), page(2, [10, 9]), page(3, [8, 7]), page(4, [6, 5])]);
    const seen: string[] = [];
    let next: string | undefined;
    do {
      // A new connection each time: the position is all that is needed.
      const { connection } = connect();
      const position = { unit: 'acme/api', since: '2026-01-05T06:00:00Z', ...(next && { page: next }) };
      const read = await connection.history(position, signal);
      seen.push(...itemsOf(read).map((item) => (item as { identifier: string }).identifier));
      next = read.next;
    } while (next !== undefined);
    expect(seen).toEqual(['88', '89', '90', '91', '92', '93', '94']);
  });

  it('tells roughly how many items there are', async () => {
    const { connection } = connect();
    script([page(1, [12]), page(1, [12, 11], 1)]);
    expect(await connection.history({ unit: 'acme/api' }, signal)).toMatchObject({ total: 900 });
    expect(await connection.history({ unit: 'acme/api' }, signal)).toMatchObject({ total: 2 });
  });

  it('ends with the list', async () => {
    const { connection } = connect();
    script([page(1, [12], 1)]);
    expect(await connection.history({ unit: 'acme/api' }, signal)).not.toHaveProperty('next');
  });

  it('has the issues too', async () => {
    const { connection } = connect({ issues: true });
    const list = '/repos/acme/api/issues?state=all&sort=updated&direction=desc&per_page=100&since=2026-01-01T00:00:00Z';
    script([
      { request: 'GET /repos/acme/api', answer: REPOSITORY },
      {
        request: `GET ${list}`,
        answer: [issue(1), issue(2, { pull_request: {} })],
        answerHeaders: linkTo(`${list}&page=2`),
      },
      { request: `GET ${list}&page=2`, answer: [issue(3, { state: 'closed' })] },
    ]);
    const position = { unit: 'issues:acme/api', since: '2026-01-01T00:00:00.250Z' };
    const first = await connection.history(position, signal);
    expect(itemsOf(first)).toMatchObject([{ identifier: '#1', state: 'open' }]);
    const second = await connection.history({ ...position, page: first.next as string }, signal);
    expect(itemsOf(second)).toMatchObject([{ identifier: '#3', state: 'done' }]);
    expect(second.next).toBeUndefined();
  });

  it('refuses a position that is not its own', async () => {
    const { connection } = connect();
    expect((await failure(connection.history({ unit: 'acme/api', page: 'next:2' }, signal))).code).toBe('internal');
  });

  it('refuses a list that links to itself', async () => {
    const { connection } = connect();
    script([{ request: `GET ${LIST}`, answer: [aged(1, 1)], answerHeaders: linkTo(LIST) }]);
    expect((await failure(connection.history({ unit: 'acme/api' }, signal))).code).toBe('answer_malformed');
  });
});

describe('sweep', () => {
  const FIND: Exchange = { request: 'GET /repos/acme/api', answer: REPOSITORY };
  const list = (name: string, count: number) =>
    `/repos/acme/api/${name}?state=all&sort=created&direction=asc&per_page=100${count === 1 ? '' : `&page=${count}`}`;

  async function sweepAll(given: Record<string, unknown>) {
    const { connection } = connect(given);
    const keys: string[] = [];
    let next: string | undefined;
    do {
      const page = await connection.sweep('acme/api', next, signal);
      expect(page.containers).toEqual(['70100']);
      keys.push(...page.keys);
      next = page.next;
    } while (next !== undefined);
    return keys;
  }

  it('names every pull request of a repository, over all pages', async () => {
    script([
      FIND,
      ...[1, 2, 3, 4, 5].map((count) => ({
        request: `GET ${list('pulls', count)}`,
        answer: [{ id: 9_000 + count, number: count }],
        answerHeaders: count < 5 ? linkTo(list('pulls', count + 1)) : {},
      })),
    ]);
    expect(await sweepAll({})).toEqual([1, 2, 3, 4, 5].map((number) => `github:github.com:70100:pull:${number}`));
  });

  it('names both kinds from one list where issues are followed', async () => {
    script([
      FIND,
      { request: `GET ${list('issues', 1)}`, answer: [issue(1), issue(2, { pull_request: { url: 'x' } })] },
    ]);
    expect(await sweepAll({ issues: true })).toEqual([
      'github:github.com:issue:880001',
      'github:github.com:70100:pull:2',
    ]);
    const { connection } = connect({ issues: true });
    expect(await connection.sweep('issues:acme/api', undefined, signal)).toEqual({ keys: [], containers: [] });
  });

  it('reads the pull requests alone where issues are switched off', async () => {
    script([
      { ...FIND, answer: { ...REPOSITORY, has_issues: false } },
      { request: `GET ${list('pulls', 1)}`, answer: [{ id: 1, number: 2 }] },
    ]);
    expect(await sweepAll({ issues: true })).toEqual(['github:github.com:70100:pull:2']);
  });

  it.each([
    ['cannot be read', [{ id: 1 }], 200, 'answer_malformed'],
    ['is none', said('Not Found'), 404, 'not_found'],
    ['is no JSON', '<html>', 200, 'answer_malformed'],
  ])('of a list that %s counts for nothing', async (_, answer, status, code) => {
    const { connection } = connect();
    script([FIND, { request: `GET ${list('pulls', 1)}`, status, answer }]);
    expect((await failure(connection.sweep('acme/api', undefined, signal))).code).toBe(code);
  });

  it('fails for a repository that is gone or hidden', async () => {
    const { connection } = connect();
    script([{ ...FIND, status: 404, answer: said('Not Found') }]);
    expect((await failure(connection.sweep('acme/api', undefined, signal))).code).toBe('not_found');
  });
});

const EVENTS = [
  'issue_comment',
  'pull_request',
  'pull_request_review',
  'pull_request_review_comment',
  'pull_request_review_thread',
];
const hook = (more: object = {}) => ({
  id: 31,
  name: 'web',
  active: true,
  events: EVENTS,
  config: { url: URL_OF_HOOK, content_type: 'json', insecure_ssl: '0', secret: '********' },
  ...more,
});

describe('hooks', () => {
  const LIST = 'GET /repos/acme/api/hooks?per_page=100';
  const config = (secret: string) => ({ url: URL_OF_HOOK, content_type: 'json', insecure_ssl: '0', secret });
  const states = async (answer: unknown, status = 200) => {
    const { connection } = connect();
    script([{ request: LIST, answer, status }]);
    return connection.hooks.states(URL_OF_HOOK, signal);
  };

  it.each([
    ['active', [hook({ last_response: { code: 202, message: 'OK', status: 'active' } })], 'webhook 31 is registered'],
    ['active', [hook({ events: ['*'], last_response: { code: null } })], 'webhook 31 is registered'],
    [
      'active',
      [hook({ last_response: { code: 502, message: 'Invalid HTTP Response: 502' } })],
      'webhook 31 is registered; its last delivery was answered with 502 Invalid HTTP Response: 502',
    ],
    ['active', [hook({ events: EVENTS.slice(1) })], 'webhook 31 does not send issue_comment'],
    [
      'active',
      [hook({ config: { url: URL_OF_HOOK, content_type: 'form', insecure_ssl: 1 } })],
      'webhook 31 does not send application/json, has no secret, does not verify the certificate',
    ],
    ['disabled', [hook({ active: false })], 'webhook 31 is switched off'],
    ['absent', [hook({ config: { url: 'https://elsewhere.example' } })], 'no webhook sends to this address'],
    ['absent', [], 'no webhook sends to this address'],
  ])('are %s: %#', async (state, answer, message) => {
    expect(await states(answer)).toEqual([expect.objectContaining({ subject: 'acme/api', state, message })]);
  });

  it.each([403, 404])('are unknown where the credential may not read them, %i', async (status) => {
    expect(await states(said('no'), status)).toMatchObject([
      { state: 'unknown', hint: expect.stringContaining('Webhooks') },
    ]);
  });

  it('fail where the request to GitHub fails', async () => {
    expect((await failure(states(said('no'), 502))).code).toBe('server_failed');
    expect((await failure(states({ hooks: [] }))).code).toBe('answer_malformed');
  });

  it('are searched for on all pages', async () => {
    const { connection } = connect();
    const pages = [1, 2, 3, 4].map((count) => ({
      request: count === 1 ? LIST : `${LIST}&page=${count}`,
      answer: count === 4 ? [hook()] : [hook({ id: count, config: { url: `https://other.example/${count}` } })],
      answerHeaders: count < 4 ? linkTo(`/repositories/70100/hooks?per_page=100&page=${count + 1}`) : {},
    }));
    script(pages);
    expect(await connection.hooks.states(URL_OF_HOOK, signal)).toMatchObject([{ state: 'active' }]);
  });

  it('are registered where there is none', async () => {
    const { connection } = connect({ issues: true });
    script([
      { request: LIST, answer: [] },
      {
        request: 'POST /repos/acme/api/hooks',
        sent: { name: 'web', active: true, events: [...EVENTS, 'issues'].toSorted(), config: config('s3cret') },
        status: 201,
        answer: hook({ events: [...EVENTS, 'issues'] }),
      },
    ]);
    expect(await connection.hooks.install(URL_OF_HOOK, 's3cret', signal)).toMatchObject([
      { subject: 'acme/api', outcome: 'created', state: 'active' },
    ]);
  });

  it.each([
    ['updated', hook({ active: false, events: ['push'] }), ['push', ...EVENTS]],
    ['updated', hook({ config: { url: URL_OF_HOOK, content_type: 'form' } }), EVENTS],
    ['unchanged', hook(), EVENTS],
  ])('are mended where they are, and then %s', async (outcome, present, events) => {
    const { connection } = connect();
    script([
      { request: LIST, answer: [present] },
      {
        request: 'PATCH /repos/acme/api/hooks/31',
        sent: { active: true, events: events.toSorted(), config: config('s3cret') },
        answer: hook({ events }),
      },
    ]);
    expect(await connection.hooks.install(URL_OF_HOOK, 's3cret', signal)).toMatchObject([{ outcome, state: 'active' }]);
  });

  it('of an organisation cover its repositories', async () => {
    const { connection } = connect({ organizations: ['acme'], repositories: ['acme/api', 'tools/cli', 'acme/x*'] });
    script([
      { request: 'GET /orgs/acme/repos?type=all&per_page=100', answer: [REPOSITORY] },
      { request: 'GET /orgs/acme/hooks?per_page=100', answer: [hook()] },
      { request: 'GET /repos/tools/cli/hooks?per_page=100', answer: [] },
    ]);
    const found = await connection.hooks.states(URL_OF_HOOK, signal);
    expect(found.map(({ subject, state }) => [subject, state])).toEqual([
      ['acme', 'active'],
      ['tools/cli', 'absent'],
    ]);
  });

  it('say why GitHub refused one', async () => {
    const { connection } = connect();
    const answer = { ...said('Validation Failed'), errors: [{ message: 'url is not supported' }] };
    script([
      { request: LIST, answer: [] },
      { request: 'POST /repos/acme/api/hooks', status: 422, answer },
    ]);
    const error = await failure(connection.hooks.install(URL_OF_HOOK, 's3cret', signal));
    expect(error).toMatchObject({ code: 'refused', message: expect.stringContaining('url is not supported') });
  });

  describe('of an App', () => {
    const own = { token: undefined, app };
    const CONFIG = 'GET /app/hook/config';
    const about = (events: readonly string[] = EVENTS): Exchange => ({
      request: 'GET /app',
      headers: { authorization: /^Bearer ey/ as unknown as string },
      answer: { id: 4711, slug: 'acme-sync', events },
    });

    it.each([
      ['active', hook().config, EVENTS, 'the webhook of the App'],
      ['active', hook().config, ['pull_request'], expect.stringContaining('does not send pull_request_review')],
      [
        'absent',
        { ...hook().config, url: 'https://elsewhere.example' },
        EVENTS,
        expect.stringContaining('another address'),
      ],
    ])('are %s: %#', async (state, answer, events, message) => {
      const { connection } = connect(own);
      script([{ request: CONFIG, answer }, about(events)]);
      expect(await connection.hooks.states(URL_OF_HOOK, signal)).toEqual([
        expect.objectContaining({ subject: 'GitHub App acme-sync', state, message }),
      ]);
    });

    it('are absent where there is none', async () => {
      const { connection } = connect(own);
      script([{ request: CONFIG, status: 404, answer: said('Not Found') }, about()]);
      expect(await connection.hooks.states(URL_OF_HOOK, signal)).toMatchObject([{ state: 'absent' }]);
    });

    it('are a single one, whose address install sets', async () => {
      const { connection } = connect(own);
      script([
        { request: CONFIG, answer: { ...hook().config, url: 'https://elsewhere.example' } },
        { request: 'PATCH /app/hook/config', sent: config('s3cret'), answer: hook().config },
        { request: CONFIG, answer: hook().config },
        about(),
      ]);
      expect(await connection.hooks.install(URL_OF_HOOK, 's3cret', signal)).toMatchObject([
        { outcome: 'updated', state: 'active' },
      ]);
    });
  });
});

describe('redelivery', () => {
  const LIST = '/repos/acme/api/hooks/31/deliveries?per_page=100';
  const HOOKS: Exchange = { request: 'GET /repos/acme/api/hooks?per_page=100', answer: [hook()] };
  let ids = 0;
  const attempt = (guid: string, status: string, hoursAgo: number, more: object = {}) => ({
    id: ++ids,
    guid,
    delivered_at: new Date(Date.UTC(2026, 0, 5, 9) - hoursAgo * 3_600_000).toISOString(),
    redelivery: false,
    status,
    status_code: status === 'OK' ? 202 : 503,
    event: 'pull_request',
    ...more,
  });
  const asked = async (connection: Pick<Connection, 'redeliver'>, cursor?: string) => {
    const told = await connection.redeliver?.(URL_OF_HOOK, cursor, signal);
    if (told?.failure) throw told.failure;
    return told?.asked;
  };
  const again = (id: number | string, status = 202): Exchange => ({
    request: `POST /repos/acme/api/hooks/31/deliveries/${id}/attempts`,
    status,
    answer: status === 202 ? {} : said('no'),
  });

  it('requests again what never arrived, and nothing else', async () => {
    const { connection } = connect();
    const lost = attempt('lost', 'failed to connect to host', 5);
    const twice = [attempt('twice', 'Invalid HTTP Response: 503', 1), attempt('twice', 'timed out', 6)];
    script([
      HOOKS,
      {
        request: `GET ${LIST}`,
        answer: [
          twice[0],
          attempt('arrived later', 'OK', 2),
          attempt('arrived later', 'Invalid HTTP Response: 503', 3),
          lost,
          twice[1],
          attempt('fine', 'OK', 7),
          attempt('taken by its code', 'Accepted', 8, { status_code: 202 }),
          attempt('another event', 'timed out', 8, { event: 'push' }),
          ...[9, 10, 11].map((hour) => attempt('hopeless', 'timed out', hour)),
        ],
      },
      again(twice[0]!.id),
      again(lost.id),
    ]);
    expect(await asked(connection)).toBe(2);
  });

  const FAILED = '/repos/acme/api/hooks/31/deliveries?status=failure&per_page=100';

  it("finds what failed by GitHub's own filter where one page does not reach back far enough", async () => {
    const { connection } = connect();
    const [lost, early] = [attempt('lost', 'Invalid HTTP Response: 503', 2), attempt('early', 'timed out', 70)];
    const next = linkTo(`${FAILED}&cursor=v1_2`);
    script([
      HOOKS,
      { request: `GET ${LIST}`, answer: [attempt('fine', 'OK', 1)], answerHeaders: linkTo(`${LIST}&cursor=v1_2`) },
      { request: `GET ${FAILED}`, answer: [lost], answerHeaders: next },
      {
        request: `GET ${FAILED}&cursor=v1_2`,
        answer: [early, attempt('too old', 'timed out', 80)],
        answerHeaders: next,
      },
      again(early.id),
      again(lost.id),
    ]);
    expect(await asked(connection)).toBe(2);
  });

  it('reads the whole list where a failure has no code, which the filter goes by', async () => {
    const { connection } = connect();
    const [now, before] = [1, 2].map((hour) => attempt(`lost ${hour}`, 'timed out', hour, { status_code: 0 }));
    script([
      HOOKS,
      { request: `GET ${LIST}`, answer: [now], answerHeaders: linkTo(`${LIST}&cursor=v1_2`) },
      { request: `GET ${FAILED}`, answer: [] },
      { request: `GET ${LIST}&cursor=v1_2`, answer: [attempt('fine', 'OK', 1), before] },
      again(before!.id),
      again(now!.id),
    ]);
    expect(await asked(connection)).toBe(2);
  });

  it('accepts ids that are too large for an exact number', async () => {
    const { connection } = connect();
    const id = '3804004623172239366';
    const [lost] = [JSON.stringify([attempt('lost', 'timed out', 2, { id: 7 })]).replace('"id":7', `"id":${id}`)];
    script([HOOKS, { request: `GET ${LIST}`, answer: lost }, again(id)]);
    expect(await asked(connection)).toBe(1);
  });

  it('continues where the last round ended, and requests nothing a second time', async () => {
    const { connection } = connect();
    const [lost, later] = [attempt('lost', 'timed out', 2), attempt('later', 'timed out', 1)];
    script([HOOKS, { request: `GET ${LIST}`, answer: [lost] }, again(lost.id)]);
    const { cursor } = await connection.redeliver(URL_OF_HOOK, undefined, signal);
    script([{ request: `GET ${LIST}`, answer: [later, lost] }, again(later.id)]);
    expect(await asked(connection, cursor)).toBe(1);
  });

  it('goes back seven days on a self-hosted server', async () => {
    const { connection } = connect({ host: 'ghe.example.com', apiUrl: 'https://api.github.com' });
    const lost = attempt('lost', 'timed out', 6 * 24);
    script([
      HOOKS,
      { request: `GET ${LIST}`, answer: [lost, attempt('too old', 'timed out', 8 * 24)] },
      again(lost.id),
    ]);
    expect(await asked(connection)).toBe(1);
  });

  it.each([400, 404, 422])('gives up what GitHub will not send again, %i', async (status) => {
    const { connection } = connect();
    const [old, lost] = [attempt('old', 'timed out', 5), attempt('lost', 'timed out', 4)];
    script([HOOKS, { request: `GET ${LIST}`, answer: [lost, old] }, again(old.id, status), again(lost.id)]);
    expect(await asked(connection)).toBe(1);
  });

  it('ends at a limit', async () => {
    const { connection } = connect();
    const lost = attempt('lost', 'timed out', 5);
    const limited = { ...again(lost.id, 403), answer: said('You have exceeded a secondary rate limit.') };
    script([HOOKS, { request: `GET ${LIST}`, answer: [lost] }, limited]);
    expect(await connection.redeliver(URL_OF_HOOK, undefined, signal)).toMatchObject({
      asked: 0,
      failure: { code: 'rate_limited' },
    });
  });

  it('requests a bounded number in a round, oldest first', async () => {
    const { connection } = connect();
    const many = Array.from({ length: 70 }, (_, at) => attempt(`lost ${at}`, 'timed out', 1 + at / 100));
    script([
      HOOKS,
      { request: `GET ${LIST}`, answer: many },
      ...many
        .toReversed()
        .slice(0, 60)
        .map(({ id }) => again(id)),
    ]);
    expect(await asked(connection)).toBe(60);
  });

  it.each([
    ['there is no hook', { answer: [] }],
    ['hooks may not be looked at', { status: 403, answer: said('no') }],
  ])('does nothing where %s', async (_, answer) => {
    const { connection } = connect();
    script([{ ...HOOKS, ...answer }]);
    expect(await asked(connection)).toBe(0);
  });

  it('of an App authenticates as the App', async () => {
    const { connection } = connect({ token: undefined, app });
    const lost = attempt('lost', 'timed out', 5);
    const headers = { authorization: /^Bearer ey/ as unknown as string };
    script([
      { request: 'GET /app/hook/config', headers, answer: hook().config },
      { request: 'GET /app/hook/deliveries?per_page=100', headers, answer: [lost] },
      { request: `POST /app/hook/deliveries/${lost.id}/attempts`, headers, status: 202, answer: {} },
    ]);
    expect(await asked(connection)).toBe(1);
  });

  it('of an App ignores deliveries of its other installations', async () => {
    const { connection } = connect({ token: undefined, app });
    const ours = attempt('ours', 'timed out', 5, { installation_id: 66 });
    script([
      { request: 'GET /app/hook/config', answer: hook().config },
      {
        request: 'GET /app/hook/deliveries?per_page=100',
        answer: [ours, attempt('theirs', 'timed out', 4, { installation_id: 67 })],
      },
      { request: `POST /app/hook/deliveries/${ours.id}/attempts`, status: 202, answer: {} },
    ]);
    expect(await asked(connection)).toBe(1);
  });

  it('uses up nothing of the limit while nothing is delivered', async () => {
    const { connection } = connect();
    const list: Exchange = { request: `GET ${LIST}`, answer: [attempt('fine', 'OK', 1)] };
    script([
      { ...HOOKS, answerHeaders: { etag: '"hooks"' } },
      { ...list, answerHeaders: { etag: '"list"' } },
    ]);
    expect(await asked(connection)).toBe(0);
    script([{ ...list, status: 304, answer: '', headers: { 'if-none-match': '"list"' } }]);
    expect(await asked(connection)).toBe(0);
  });

  it('does nothing for an App whose webhook sends elsewhere', async () => {
    const { connection } = connect({ token: undefined, app });
    script([{ request: 'GET /app/hook/config', answer: { ...hook().config, url: 'https://elsewhere.example' } }]);
    expect(await asked(connection)).toBe(0);
  });
});

describe('write-back', () => {
  const locator = { repoId: '70100', repository: 'acme/old-name', number: '13' };
  const ofPull: ItemReference = { kind: 'pull_request', key: 'github:github.com:70100:pull:13', locator };
  const ofIssue: ItemReference = {
    kind: 'work_item',
    key: 'github:github.com:issue:880013',
    locator: { ...locator, id: '880013' },
  };
  const FIND: Exchange = { request: 'GET /repos/acme/old-name', answer: REPOSITORY };
  const ME: Exchange = { request: 'GET /user', answer: { id: 77, login: 'worksync-bot' } };
  const COMMENTS = '/repos/acme/api/issues/13/comments';
  const marker = '<!-- worksync:acme -->';
  const text = `Task ENG-1\n\n${marker}`;
  const comment = (id: number, body: string, user = 77) => ({ id, body, user: { id: user } });

  it.each([ofPull, ofIssue])('posts the comment where there is none, on all pages: $kind', async (reference) => {
    const { connection } = connect();
    const pages = [1, 2, 3, 4].map((count) => ({
      request: `GET ${COMMENTS}?per_page=100${count === 1 ? '' : `&page=${count}`}`,
      answer: [comment(count, 'Something else')],
      answerHeaders: count < 4 ? linkTo(`/repositories/70100/issues/13/comments?per_page=100&page=${count + 1}`) : {},
    }));
    script([FIND, ME, ...pages, { request: `POST ${COMMENTS}`, sent: { body: text }, status: 201, answer: {} }]);
    await expect(connection.comment(reference, { marker, text }, signal)).resolves.toBeUndefined();
  });

  it('updates its own comment, and writes nothing when it says the same', async () => {
    const { connection } = connect();
    const list: Exchange = {
      request: `GET ${COMMENTS}?per_page=100`,
      answer: [comment(1, `> ${text}`, 5), comment(2, `Old\n\n${marker}`), comment(3, text)],
    };
    const edited = { request: 'PATCH /repos/acme/api/issues/comments/2', sent: { body: text }, answer: {} };
    script([FIND, ME, list, edited]);
    await expect(connection.comment(ofPull, { marker, text }, signal)).resolves.toBeUndefined();
    // What the repository is called was just asked.
    script([{ ...list, answer: [comment(2, text)] }]);
    await expect(connection.comment(ofPull, { marker, text }, signal)).resolves.toBeUndefined();
  });

  it.each<[string, Exchange]>([
    ['belongs to another repository now', { ...FIND, answer: { ...REPOSITORY, id: 4, full_name: 'acme/old-name' } }],
    ['leads to nothing', { ...FIND, status: 404, answer: said('Not Found') }],
  ])('finds the repository by its id where its name %s', async (_, named) => {
    const { connection } = connect();
    script([
      named,
      { request: 'GET /repositories/70100', answer: REPOSITORY },
      ME,
      { request: `GET ${COMMENTS}?per_page=100`, answer: [comment(2, text)] },
    ]);
    await expect(connection.comment(ofPull, { marker, text }, signal)).resolves.toBeUndefined();
  });

  it('asks for the name again after a failure, and after some minutes', async () => {
    const { connection, clock } = connect();
    const list: Exchange = { request: `GET ${COMMENTS}?per_page=100`, answer: [comment(2, text)] };
    script([FIND, ME, { ...list, status: 404, answer: said('Not Found') }]);
    expect((await failure(connection.comment(ofPull, { marker, text }, signal))).code).toBe('not_found');
    script([FIND, list]);
    await expect(connection.comment(ofPull, { marker, text }, signal)).resolves.toBeUndefined();
    await clock.advance(299_000);
    script([list]);
    await expect(connection.comment(ofPull, { marker, text }, signal)).resolves.toBeUndefined();
    // A wall clock that is set back makes no name last longer.
    clock.jumpWall(-3_600_000);
    await clock.advance(1_000);
    script([FIND, list]);
    await expect(connection.comment(ofPull, { marker, text }, signal)).resolves.toBeUndefined();
  });

  it('always contains the marker', async () => {
    const { connection } = connect();
    script([
      FIND,
      ME,
      { request: `GET ${COMMENTS}?per_page=100`, answer: [] },
      { request: `POST ${COMMENTS}`, sent: { body: `Hello\n\n${marker}` }, status: 201, answer: {} },
    ]);
    await expect(connection.comment(ofPull, { marker, text: 'Hello' }, signal)).resolves.toBeUndefined();
  });

  it('knows its own comments as an App', async () => {
    const { connection } = connect({ token: undefined, app });
    script([
      MINT,
      FIND,
      { request: 'GET /app', answer: { id: 4711 } },
      {
        request: `GET ${COMMENTS}?per_page=100`,
        answer: [comment(1, text, 5), { ...comment(2, marker, 6), performed_via_github_app: { id: 4711 } }],
      },
      { request: 'PATCH /repos/acme/api/issues/comments/2', sent: { body: text }, answer: {} },
    ]);
    await expect(connection.comment(ofPull, { marker, text }, signal)).resolves.toBeUndefined();
  });

  it('recognises its comment by the marker alone with a token that has no user', async () => {
    const { connection } = connect();
    script([
      FIND,
      { ...ME, status: 403, answer: said('Resource not accessible by integration') },
      { request: `GET ${COMMENTS}?per_page=100`, answer: [comment(2, text, 5)] },
    ]);
    await expect(connection.comment(ofPull, { marker, text }, signal)).resolves.toBeUndefined();
  });

  it.each([
    [403, 'forbidden'],
    [404, 'not_found'],
    [422, 'refused'],
    [502, 'server_failed'],
  ])('that is refused with %i is %s', async (status, code) => {
    const { connection } = connect();
    script([
      FIND,
      ME,
      { request: `GET ${COMMENTS}?per_page=100`, answer: [] },
      { request: `POST ${COMMENTS}`, status, answer: said('no') },
    ]);
    expect((await failure(connection.comment(ofPull, { marker, text }, signal))).code).toBe(code);
  });

  it('sets the status of a commit, at the present name of the repository', async () => {
    const sha = 'a'.repeat(40);
    const status = { sha, state: 'failure', text: 'linked to no task' } as const;
    const sent = { state: 'failure', context: 'worksync/tasks', description: 'linked to no task' };
    const { connection } = connect();
    script([FIND, { request: `POST /repos/acme/api/statuses/${sha}`, sent, status: 201, answer: {} }]);
    await expect(connection.status!.write(ofPull, status, signal)).resolves.toBeUndefined();
  });

  it.each([
    [403, 'refused', 'Commit statuses: write'],
    [404, 'refused', 'repo:status'],
    [422, 'refused', ''],
    [502, 'server_failed', ''],
  ])('a status that is refused with %i is %s', async (status, code, hint) => {
    const { connection } = connect();
    const sha = 'a'.repeat(40);
    script([FIND, { request: `POST /repos/acme/api/statuses/${sha}`, status, answer: said('no') }]);
    const error = await failure(connection.status!.write(ofPull, { sha, state: 'success', text: 'x' }, signal));
    expect([error.code, error.hint]).toEqual([code, expect.stringContaining(hint)]);
  });

  const ISSUE = '/repos/acme/api/issues/13';

  it('closes an issue as completed', async () => {
    const { connection } = connect();
    script([
      FIND,
      { request: `GET ${ISSUE}`, answer: issue(13) },
      { request: `PATCH ${ISSUE}`, sent: { state: 'closed', state_reason: 'completed' }, answer: {} },
    ]);
    await expect(connection.close(ofIssue, signal)).resolves.toBeUndefined();
  });

  it('leaves a closed issue as it is', async () => {
    const { connection } = connect();
    script([FIND, { request: `GET ${ISSUE}`, answer: issue(13, { state: 'closed', state_reason: 'not_planned' }) }]);
    await expect(connection.close(ofIssue, signal)).resolves.toBeUndefined();
  });

  it('does not close another issue that has the number now', async () => {
    const { connection } = connect();
    script([FIND, { request: `GET ${ISSUE}`, answer: issue(13, { id: 5 }) }]);
    expect((await failure(connection.close(ofIssue, signal))).code).toBe('not_found');
  });

  it('never closes a pull request', async () => {
    const { connection } = connect();
    const error = await failure(connection.close(ofPull, signal));
    expect(error).toMatchObject({
      code: 'refused',
      errorCode: 'unsupported_field',
      hint: expect.stringContaining('issues'),
    });
  });
});

describe('check', () => {
  const proof = (events: object = {}): Exchange[] => [
    MINT,
    { request: 'GET /installation/repositories?per_page=1', answer: { total_count: 1 } },
    { request: 'GET /app', answer: { id: 4711, ...events } },
  ];

  it('warns about an App that serves others too', async () => {
    const { connection } = connect({ token: undefined, app, repositories: ['acme/*'] });
    script([
      ...proof({ installations_count: 3 }),
      { request: 'GET /installation/repositories?per_page=100', answer: { repositories: [REPOSITORY] } },
    ]);
    expect(await connection.check(signal)).toMatchObject([
      { level: 'ok', subject: 'credential' },
      {
        level: 'warning',
        message: expect.stringContaining('3 times'),
        hint: expect.stringContaining('One GitHub App'),
      },
      { level: 'ok', subject: 'acme/*', message: '1 repository' },
    ]);
  });

  it('warns about patterns that match nothing', async () => {
    const { connection } = connect({ token: undefined, app, repositories: ['acme/*'], exclude: ['acme/api'] });
    script([
      ...proof({ installations_count: 1 }),
      { request: 'GET /installation/repositories?per_page=100', answer: { repositories: [REPOSITORY] } },
    ]);
    expect(await connection.check(signal)).toMatchObject([
      { level: 'ok' },
      { level: 'warning', message: 'matches no repository' },
    ]);
  });

  it('reads the issues where they are followed', async () => {
    const { connection } = connect({ issues: true, repositories: [70100] });
    script([
      { request: 'GET /user', answer: { login: 'ada' } },
      { request: 'GET /repositories/70100', answer: REPOSITORY },
      { request: 'GET /repositories/70100/pulls?state=all&per_page=1', answer: [] },
      {
        request: 'GET /repositories/70100/issues?state=all&per_page=1',
        status: 403,
        answer: said('Resource not accessible'),
      },
    ]);
    expect(await connection.check(signal)).toMatchObject([
      { level: 'warning', subject: 'credential' },
      { level: 'ok', message: 'acme/api can be read' },
      { level: 'error', message: expect.stringContaining('issues') },
      { subject: 'rate limit' },
    ]);
  });
});
