import nock from 'nock';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { bitbucket } from '../../src/connectors/bitbucket/index.ts';
import { createHttpClient } from '../../src/http/http-client.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import { silentMeter } from '../../src/lib/meter.ts';
import { noSteps } from '../../src/lib/steps.ts';
import { createTravellingClock } from '../support/travelling-clock.ts';
import { documentedOnly } from '../support/vendor-requests/index.ts';

/** What a connection of Bitbucket does beside polls and fetches, by written exchanges. */

const { signal } = new AbortController();
const http = documentedOnly(createHttpClient({ steps: noSteps, meter: silentMeter }));
const UUIDS = [1, 2, 3].map((n) => `{${String(n).repeat(8)}-0000-4000-8000-000000000000}`);
const [API, WEB, FORK] = UUIDS as [string, string, string];
const URL_HERE = 'https://sync.example.com/webhooks/main/bb';
const HOOK = '{99999999-0000-4000-8000-000000000000}';
const EVENTS = ['pullrequest:created', 'pullrequest:updated', 'pullrequest:fulfilled', 'pullrequest:rejected'];

beforeAll(() => nock.disableNetConnect());
afterEach(() => {
  const left = nock.pendingMocks();
  nock.cleanAll();
  if (left.length > 0) throw new Error(`was never asked for: ${left.join(', ')}`);
});
afterAll(async () => {
  nock.enableNetConnect();
  nock.restore();
  await http.close();
});

const cloud = () => nock('https://api.bitbucket.org/2.0', { reqheaders: { authorization: 'Bearer ATCTT3x' } });
const said = (message: string) => ({ type: 'error', error: { message } });
const failing = (code: string) => expect.objectContaining({ code });

function connectionOf(given: object) {
  const clock = createTravellingClock();
  const options = bitbucket.options.parse({ token: 'ATCTT3x', ...given });
  return { clock, options, connection: bitbucket.connect(options, { http, clock, logger: silentLogger }) };
}

const repository = (uuid: string, full_name: string, more: object = {}) => ({ uuid, full_name, ...more });
const ALL = [
  repository(API, 'acme/api'),
  repository(WEB, 'acme/web'),
  repository(FORK, 'acme/api-fork', { parent: { uuid: API } }),
];
const FIELDS = 'next,values.uuid,values.full_name,values.parent.uuid';

function listing(values: readonly object[] = ALL) {
  return cloud()
    .get('/repositories/acme')
    .query({ pagelen: '100', sort: 'created_on', fields: FIELDS })
    .reply(200, { values });
}

describe('the scope', () => {
  const unit = (uuid: string) => `acme/${uuid}`;

  it('costs nothing where repositories are named alone', async () => {
    const { connection } = connectionOf({ repositories: ['acme/api', 'acme/web'], exclude: ['acme/w*'] });
    expect(await connection.units(signal)).toEqual(['acme/api']);
  });

  it.each([
    ['a workspace', { workspaces: ['acme'] }, [unit(API), unit(WEB)]],
    ['a workspace with its forks', { workspaces: ['acme'], forks: true }, [unit(API), unit(WEB), unit(FORK)]],
    ['a workspace without some', { workspaces: ['acme'], exclude: ['acme/WEB'] }, [unit(API)]],
    ['a pattern', { repositories: ['acme/a*'], forks: true }, [unit(API), unit(FORK)]],
    ['a pattern and a name', { repositories: ['acme/api', 'acme/*'] }, ['acme/api', unit(WEB)]],
    ['a fork that is named', { repositories: ['acme/api-fork', 'acme/api*'] }, ['acme/api-fork', unit(API)]],
  ])('%s: by name where it is named, by id where a pattern took it in', async (_, given, units) => {
    listing();
    const { connection } = connectionOf(given);
    expect(await connection.units(signal)).toEqual(units);
  });

  it('is read along all pages, and again after some minutes', async () => {
    const next = 'https://api.bitbucket.org/2.0/repositories/acme?pagelen=100&page=2';
    cloud()
      .get('/repositories/acme')
      .query({ pagelen: '100', sort: 'created_on', fields: FIELDS })
      .reply(200, { values: ALL.slice(0, 1), next })
      .get('/repositories/acme')
      .query({ pagelen: '100', page: '2' })
      .reply(200, { values: ALL.slice(1) });
    const { connection, clock } = connectionOf({ workspaces: ['acme'] });
    expect(await connection.units(signal)).toHaveLength(2);
    expect(await connection.units(signal)).toHaveLength(2);
    await clock.advance(15 * 60_000);
    listing([...ALL, repository(HOOK, 'acme/new')]);
    expect(await connection.units(signal)).toHaveLength(3);
  });

  it('claims nothing of a list that cannot be read whole', async () => {
    cloud().get('/repositories/acme').query(true).reply(403, said('no'));
    await expect(connectionOf({ workspaces: ['acme'] }).connection.units(signal)).rejects.toEqual(failing('forbidden'));
    cloud()
      .get('/repositories/acme')
      .query(true)
      .reply(200, { values: [{ uuid: 'x' }] });
    await expect(connectionOf({ workspaces: ['acme'] }).connection.units(signal)).rejects.toEqual(
      failing('answer_malformed'),
    );
  });

  it('polls by the id, and takes links by the name for the same list', async () => {
    const path = `/repositories/acme/${encodeURIComponent(API)}/pullrequests`;
    const next = 'https://api.bitbucket.org/2.0/repositories/acme/renamed/pullrequests?page=2';
    cloud().get(path).query(true).reply(200, { values: [], next });
    const { connection } = connectionOf({ workspaces: ['acme'] });
    const position = { unit: unit(API), watermark: '2026-01-05T08:00:00Z', startedAt: '2026-01-05T09:00:00Z' };
    expect(await connection.poll(position, signal)).toMatchObject({ next: 'link:page=2' });
  });

  it.each([
    [{ workspaces: ['Acme'] }, {}, 'items'],
    [{ repositories: ['acme/*'] }, {}, 'items'],
    [{ repositories: ['acme/*'], exclude: ['acme/api'] }, {}, 'ignored'],
    [{ workspaces: ['acme'] }, { parent: { uuid: WEB } }, 'ignored'],
    [{ workspaces: ['acme'], forks: true }, { parent: { uuid: WEB } }, 'items'],
    [{ workspaces: ['acme'] }, { parent: null }, 'items'],
    [{ workspaces: ['other'] }, {}, 'ignored'],
  ])('%j judges a webhook by what it carries, %j: %s', (given, more, outcome) => {
    const pullrequest = {
      id: 1,
      updated_on: '2026-01-05T09:00:00+00:00',
      state: 'OPEN',
      title: 'A change',
      source: { branch: { name: 'feature' } },
      destination: { branch: { name: 'main' }, repository: repository(API, 'acme/api') },
    };
    const body = Buffer.from(JSON.stringify({ pullrequest, repository: repository(API, 'acme/api', more) }));
    const delivery = { source: 'webhook', event: 'pullrequest:created', body } as const;
    expect(bitbucket.translate(delivery, connectionOf(given).options).outcome).toBe(outcome);
  });

  it('check says how many repositories a pattern takes in, and warns of none', async () => {
    listing();
    expect(await connectionOf({ workspaces: ['acme'] }).connection.check(signal)).toContainEqual(
      expect.objectContaining({ level: 'ok', subject: 'acme/*', message: expect.stringContaining('2 repositories') }),
    );
    listing([]);
    expect(await connectionOf({ workspaces: ['acme'] }).connection.check(signal)).toContainEqual(
      expect.objectContaining({ level: 'warning', subject: 'acme/*' }),
    );
  });
});

describe('history and sweep', () => {
  const path = '/repositories/acme/api/pullrequests';
  const states = ['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED'];
  const nextPage = (page: number) => `https://api.bitbucket.org/2.0${path}?sort=id&page=${page}`;

  it('history takes every state, newest first, along the links, with the number of all', async () => {
    cloud()
      .get(path)
      .query((query) => {
        expect(query).toMatchObject({ state: states, sort: '-updated_on', pagelen: '50' });
        expect(query['q']).toBe('updated_on >= 2025-01-01T00:00:00.000+00:00');
        expect(String(query['fields']).split(',')).toEqual(expect.arrayContaining(['size', 'next', 'values.id']));
        return true;
      })
      .reply(200, { values: [{ id: 7 }], size: 51, next: nextPage(2) });
    cloud().get(path).query({ sort: 'id', page: '2' }).reply(200, { values: [] });
    const { connection } = connectionOf({ repositories: ['acme/api'] });
    const position = { unit: 'acme/api', since: '2025-01-01T00:00:00Z' };
    const first = await connection.history!(position, signal);
    expect(first).toMatchObject({ event: 'pullrequests.list', total: 51, next: 'link:sort=id&page=2' });
    expect(JSON.parse(first.body.toString())).toEqual({ values: [{ id: 7 }] });
    const last = await connection.history!({ ...position, page: first.next! }, signal);
    expect(last).not.toHaveProperty('next');
  });

  it('history without a beginning asks for everything', async () => {
    cloud()
      .get(path)
      .query((query) => query['q'] === undefined)
      .reply(200, { values: [] });
    const { connection } = connectionOf({ repositories: ['acme/api'] });
    expect(await connection.history!({ unit: 'acme/api' }, signal)).not.toHaveProperty('total');
  });

  const swept = (id: number) => ({ id, destination: { repository: { uuid: API } } });

  it('sweep names everything that there is, oldest first', async () => {
    cloud()
      .get(path)
      .query((query) => query['sort'] === 'id' && String(query['state']) === String(states))
      .reply(200, { values: [swept(1), swept(2)], next: nextPage(2) })
      .get(path)
      .query({ sort: 'id', page: '2' })
      .reply(200, { values: [swept(3)] });
    const { connection } = connectionOf({ repositories: ['acme/api'] });
    const first = await connection.sweep!('acme/api', undefined, signal);
    expect(first).toEqual({
      keys: [`bitbucket:bitbucket.org:${API}:pull:1`, `bitbucket:bitbucket.org:${API}:pull:2`],
      containers: [API],
      next: 'link:sort=id&page=2',
    });
    const last = await connection.sweep!('acme/api', first.next, signal);
    expect(last).toEqual({ keys: [`bitbucket:bitbucket.org:${API}:pull:3`], containers: [API] });
  });

  it.each([
    ['an element without id', 200, { values: [swept(1), { id: null }] }, 'answer_malformed'],
    ['a repository that cannot be seen', 404, said('Not found'), 'not_found'],
  ])('sweep does not end well with %s', async (_, status, body, code) => {
    cloud().get(path).query(true).reply(status, body);
    const { connection } = connectionOf({ repositories: ['acme/api'] });
    await expect(connection.sweep!('acme/api', undefined, signal)).rejects.toEqual(failing(code));
  });
});

describe('the budget', () => {
  const path = '/repositories/acme/api/pullrequests';

  it('leaves half of the hour to polls and fetches, and a fifth once Bitbucket says that it is near', async () => {
    const { connection, clock } = connectionOf({ repositories: ['acme/api'] });
    const answered = (headers: Record<string, string>) =>
      cloud().get(path).query(true).reply(200, { values: [] }, headers);
    const position = { unit: 'acme/api', watermark: '2026-01-05T08:00:00Z', startedAt: '2026-01-05T09:00:00Z' };
    answered({ 'x-ratelimit-limit': '10' });
    await connection.history!({ unit: 'acme/api' }, signal);
    answered({ 'x-ratelimit-nearlimit': 'true' });
    await connection.history!({ unit: 'acme/api' }, signal);
    await expect(connection.history!({ unit: 'acme/api' }, signal)).rejects.toEqual(failing('rate_limited'));
    answered({});
    expect((await connection.poll(position, signal)).outcome).toBe('page');
    await clock.advance(3_700_000);
    answered({});
    await connection.history!({ unit: 'acme/api' }, signal);
  });

  it('counts its own requests, since Bitbucket does not say what is left', async () => {
    const { connection } = connectionOf({ repositories: ['acme/api'] });
    cloud().get(path).query(true).times(5).reply(200, { values: [] }, { 'x-ratelimit-limit': '10' });
    for (let count = 0; count < 5; count++) await connection.history!({ unit: 'acme/api' }, signal);
    await expect(connection.history!({ unit: 'acme/api' }, signal)).rejects.toEqual(failing('rate_limited'));
  });
});

describe('webhooks', () => {
  const PATH = '/repositories/acme/api/hooks';
  const hook = (more: object = {}) => ({
    uuid: HOOK,
    url: URL_HERE,
    active: true,
    events: EVENTS,
    description: 'by hand',
    secret_set: true,
    skip_cert_verification: false,
    ...more,
  });
  const named = () => connectionOf({ repositories: ['acme/api'] }).connection.hooks!;
  const list = (values: readonly object[], path = PATH) =>
    cloud().get(path).query({ pagelen: '100' }).reply(200, { values });

  it.each([
    ['active', hook(), 'is registered'],
    ['disabled', hook({ active: false }), 'switched off'],
    ['active', hook({ events: EVENTS.slice(1) }), 'does not send pullrequest:created'],
    ['active', hook({ secret_set: false }), 'no secret'],
    ['absent', hook({ url: 'https://elsewhere.example.com/' }), 'no webhook'],
  ])('%s', async (state, present, message) => {
    list([present]);
    const states = await named().states(URL_HERE, signal);
    expect(states).toEqual([
      expect.objectContaining({ subject: 'acme/api', state, message: expect.stringContaining(message) }),
    ]);
    expect(states[0]?.hint === undefined).toBe(message === 'is registered');
  });

  it.each([401, 403, 404])('%i: it is not known', async (status) => {
    cloud().get(PATH).query(true).reply(status, said('no'));
    expect(await named().states(URL_HERE, signal)).toEqual([
      expect.objectContaining({ state: 'unknown', hint: expect.stringContaining('webhook') }),
    ]);
  });

  it('registers what is absent, with its secret', async () => {
    list([]);
    const body = { description: 'worksync', url: URL_HERE, active: true, events: EVENTS, secret: 'a-secret' };
    cloud().post(PATH, body).reply(201, hook());
    expect(await named().install(URL_HERE, 'a-secret', signal)).toMatchObject([{ outcome: 'created' }]);
  });

  it('finds its webhook on a later page', async () => {
    const next = `https://api.bitbucket.org/2.0${PATH}?pagelen=100&page=2`;
    cloud()
      .get(PATH)
      .query({ pagelen: '100' })
      .reply(200, { values: [hook({ url: 'https://elsewhere.example.com/' })], next })
      .get(PATH)
      .query({ pagelen: '100', page: '2' })
      .reply(200, { values: [hook()] })
      .put(`${PATH}/${encodeURIComponent(HOOK)}`, (body: { secret?: string }) => body.secret === 'a-secret')
      .reply(200, hook());
    expect(await named().install(URL_HERE, 'a-secret', signal)).toMatchObject([{ outcome: 'unchanged' }]);
  });

  it('mends what is wrong, and leaves the rest as it is', async () => {
    list([hook({ active: false, events: ['repo:push'], skip_cert_verification: true })]);
    const body = {
      description: 'by hand',
      url: URL_HERE,
      active: true,
      events: ['repo:push', ...EVENTS],
      secret: 'a-secret',
      skip_cert_verification: true,
    };
    cloud()
      .put(`${PATH}/${encodeURIComponent(HOOK)}`, body)
      .reply(200, hook());
    expect(await named().install(URL_HERE, 'a-secret', signal)).toMatchObject([{ outcome: 'updated' }]);
  });

  it('sends the secret where nothing is wrong: it cannot be read back, and may have been rotated', async () => {
    list([hook()]);
    const { uuid: _, secret_set: __, ...same } = hook();
    cloud()
      .put(`${PATH}/${encodeURIComponent(HOOK)}`, { ...same, secret: 'a-secret' })
      .reply(200, hook());
    expect(await named().install(URL_HERE, 'a-secret', signal)).toMatchObject([{ outcome: 'unchanged' }]);
  });

  it('one for a workspace that is followed whole, one for each other repository that is not left out', async () => {
    listing();
    list([hook()], '/workspaces/acme/hooks');
    list([hook()], '/repositories/other/lib/hooks');
    const repositories = ['acme/api', 'other/lib', 'other/old'];
    const { connection } = connectionOf({ workspaces: ['acme'], repositories, exclude: ['other/old'] });
    const states = await connection.hooks!.states(URL_HERE, signal);
    expect(states.map(({ subject }) => subject)).toEqual(['acme', 'other/lib']);
  });

  it('tells why Bitbucket refused one', async () => {
    list([]);
    cloud().post(PATH).reply(400, said('There is a limit of 50 webhooks'));
    await expect(named().install(URL_HERE, 'a-secret', signal)).rejects.toThrow('limit of 50');
  });
});

describe('writing back', () => {
  const AT = `/repositories/acme/${encodeURIComponent(API)}/pullrequests/12/comments`;
  const reference = {
    kind: 'pull_request',
    key: 'k',
    locator: { repoId: API, repository: 'acme/api', number: '12' },
  } as const;
  const comment = { marker: '[worksync:k]', text: 'BUG-1 is linked' };
  const raw = 'BUG-1 is linked\n\n[worksync:k]';
  const write = () => connectionOf({ repositories: ['acme/api'] }).connection.comment!(reference, comment, signal);
  const OURS = '{77777777-0000-4000-8000-000000000000}';
  const user = { uuid: OURS };
  const holds = (...values: object[]) => {
    cloud().get('/user').query({ fields: 'uuid' }).reply(200, user);
    cloud().get(AT).query(true).reply(200, { values });
  };

  it('posts a comment once', async () => {
    holds(
      { id: 1, user, content: { raw: 'looks good' } },
      { id: 2, user, deleted: true, content: { raw } },
      { id: 4, user: { uuid: WEB }, content: { raw: `> ${raw}` } },
    );
    cloud().post(AT, { content: { raw } }).reply(201, { id: 3 });
    await expect(write()).resolves.toBeUndefined();
  });

  it('changes the one that is there', async () => {
    holds({ id: 3, user, content: { raw: 'BUG-2 is linked\n\n[worksync:k]' } });
    cloud().put(`${AT}/3`, { content: { raw } }).reply(200, { id: 3 });
    await expect(write()).resolves.toBeUndefined();
  });

  it('writes nothing where it says so already', async () => {
    holds({ id: 3, user, content: { raw } });
    await expect(write()).resolves.toBeUndefined();
  });

  it('goes by the marker alone where nobody says whose token it is', async () => {
    cloud().get('/user').query(true).reply(403, said('no scope'));
    cloud()
      .get(AT)
      .query(true)
      .reply(200, { values: [{ id: 3, user: { uuid: WEB }, content: { raw } }] });
    await expect(write()).resolves.toBeUndefined();
  });

  it.each([
    [403, 'forbidden'],
    [400, 'refused'],
  ])('%i is told', async (status, code) => {
    holds();
    cloud().post(AT).reply(status, said('no'));
    await expect(write()).rejects.toMatchObject({ status, code });
  });

  it('closes nothing', async () => {
    const { connection } = connectionOf({ repositories: ['acme/api'] });
    await expect(connection.close!(reference, signal)).rejects.toEqual(failing('refused'));
  });
});

describe('a commit status', () => {
  const AT = `/repositories/acme/${encodeURIComponent(API)}/commit/0123456789ab/statuses/build`;
  const locator = { repoId: API, repository: 'acme/api', number: '12' };
  const reference = { kind: 'pull_request', key: 'k', locator } as const;
  const write = (state: 'success' | 'failure', url?: string) =>
    connectionOf({ repositories: ['acme/api'] }).connection.status!.write(
      reference,
      { sha: '0123456789ab', state, text: 'linked to BUG-1', url },
      signal,
    );
  const body = { key: 'worksync/tasks', name: 'worksync/tasks', description: 'linked to BUG-1' };
  const ADDRESS = 'https://bitbucket.org/acme/api/pull-requests/12';

  it.each([
    ['success', 'SUCCESSFUL', undefined],
    ['failure', 'FAILED', ADDRESS],
  ] as const)('%s; Bitbucket insists on an address', async (state, word, url) => {
    cloud()
      .post(AT, { ...body, state: word, url: ADDRESS })
      .reply(201, {});
    await expect(write(state, url)).resolves.toBeUndefined();
  });

  it.each([403, 404])('%i is told with the right that is needed', async (status) => {
    cloud().post(AT).reply(status, said('no'));
    await expect(write('success')).rejects.toMatchObject({
      code: 'refused',
      hint: expect.stringContaining('the scope repository'),
    });
  });
});
