import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { destinationOf, pathOf } from '../../../src/gateway/destination.ts';
import { createCredentialThrottle } from '../../../src/gateway/gateway.ts';
import { createCallers, type Known, type Stranger } from '../../../src/gateway/known-callers.ts';
import { createTokenBook, createTokens, type TokenBook } from '../../../src/gateway/token-book.ts';
import type { Upstream } from '../../../src/gateway/upstream.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { withLateAnswers } from '../../support/fakes/late-answers.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { nextTurnOfLoop } from '../../support/harness/statements.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';

interface Setting {
  readonly name?: string;
  readonly id?: string;
  readonly tasks?: readonly string[];
}

/** The parts of an upstream that identify callers. */
function upstream({ name = 'one', id, tasks = [] }: Setting = {}): Upstream {
  return {
    name,
    settings: { freshFor: 15_000, longestWait: 20_000, keyPrefix: 'wsk_', versionHeader: 'x-service-api-version' },
    workspaceId: async () => id,
    hasTask: async (taskId: string) => tasks.includes(taskId),
  } as unknown as Upstream;
}

/** @param owners names of workspaces by the tokens that were made for them */
function setUp(upstreams: readonly Upstream[] = [], owners: Readonly<Record<string, string>> = {}) {
  const clock = createTravellingClock();
  const upstreamOf = (workspace: string) => upstreams.find(({ name }) => name === workspace);
  const tokenOf = (secret: string) => {
    const workspace = owners[secret];
    return workspace === undefined ? undefined : { id: `gwt_${secret}`, workspace };
  };
  const tokens: TokenBook = {
    find: async (secret) => tokenOf(secret),
    recall: tokenOf,
    withId: async (id) => tokenOf(id.replace(/^gwt_/, '')),
    reread: async () => undefined,
    changed: async () => undefined,
  };
  return { clock, upstreams, callers: createCallers({ upstream: upstreamOf, tokens, clock, random: systemRandom() }) };
}

const KEY = 'Bearer wsk_a';

describe('callers', () => {
  test.each([
    [undefined],
    ['Bearer '],
    ['Basic YTpi'],
    ['Bearer a b'],
    [`Bearer ${'x'.repeat(4_097)}`],
    ['Bearer wsg_unknown'],
  ])('%s is nobody', async (authorization) => {
    const { callers } = setUp([upstream()]);
    expect(await callers.identify(authorization)).toEqual({ kind: 'nobody' });
    expect(callers.recall(authorization)).toBeUndefined();
  });

  test('a gateway token of a workspace that is not open here may belong elsewhere, and has nothing cached', async () => {
    const { callers } = setUp([upstream()], { wsg_moved: 'moved' });
    const elsewhere = { kind: 'elsewhere', id: 'gwt_wsg_moved', workspace: 'moved' };
    expect(await callers.identify('Bearer wsg_moved')).toEqual(elsewhere);
    expect(await callers.withToken('gwt_wsg_moved')).toEqual(elsewhere);
    expect(callers.recall('Bearer wsg_moved')).toBeUndefined();
  });

  test('a gateway token belongs to the workspace that made it', async () => {
    const { callers, upstreams } = setUp([upstream(), upstream({ name: 'two' })], { wsg_1: 'one', wsg_2: 'two' });
    expect(await callers.identify('Bearer wsg_2')).toEqual({ kind: 'token', upstream: upstreams[1], id: 'gwt_wsg_2' });
    expect(callers.recall('bearer wsg_1')).toEqual({ kind: 'token', upstream: upstreams[0], id: 'gwt_wsg_1' });
  });

  test('a key is known for a minute from the beginning of the request that proved it', async () => {
    const one = upstream();
    const { callers, clock } = setUp([one]);
    const since = clock.monotonic();
    await clock.advance(10_000);
    callers.accepted(KEY, { upstream: one, since, isProved: true });
    await clock.advance(49_999);
    expect(await callers.identify(KEY)).toEqual({ kind: 'key', upstream: one });
    expect(callers.recall(KEY)).toEqual({ kind: 'key', upstream: one });
    await clock.advance(1);
    expect(await callers.identify(KEY)).toMatchObject({ kind: 'stranger', credible: false });
    expect(callers.recall(KEY)).toBeUndefined();
  });

  test('without proof, or with another form than a key, it is a stranger who can be trusted to exist', async () => {
    const one = upstream();
    const { callers } = setUp([one]);
    callers.accepted(KEY, { upstream: one, since: 0, isProved: false });
    callers.accepted('Bearer wst_oauth', { upstream: one, since: 0, isProved: true });
    for (const authorization of [KEY, 'Bearer wst_oauth']) {
      expect(await callers.identify(authorization)).toMatchObject({ kind: 'stranger', credible: true });
      expect(callers.recall(authorization)).toBeUndefined();
    }
  });

  test('a refusal is the last word, also over an answer that was asked for before it', async () => {
    const one = upstream();
    const { callers, clock } = setUp([one]);
    callers.accepted(KEY, { upstream: one, since: 0, isProved: true });
    await clock.advance(1_000);
    callers.refused(KEY);
    callers.accepted(KEY, { upstream: one, since: 500, isProved: true });
    expect(await callers.identify(KEY)).toMatchObject({ kind: 'stranger', credible: false });
    await clock.advance(1);
    callers.accepted(KEY, { upstream: one, since: clock.monotonic(), isProved: true });
    expect(await callers.identify(KEY)).toMatchObject({ kind: 'key' });
  });
});

const STRANGER = { kind: 'stranger', name: 'x', credible: false } as const;
const TWO = [upstream({ id: 'ws_1' }), upstream({ name: 'two', id: 'ws_2' })];
const CASES = {
  'a stranger, one workspace': [STRANGER, [upstream({ id: 'ws_1', tasks: ['tsk_ours'] })]],
  'a stranger, one workspace of unknown id': [STRANGER, [upstream()]],
  'a stranger, two workspaces': [STRANGER, TWO],
  'a token of the first of two workspaces': [{ kind: 'token', upstream: TWO[0]!, id: 'gwt_1' }, TWO],
} as const satisfies Record<string, readonly [Known | Stranger, readonly Upstream[]]>;

test.each<[who: keyof typeof CASES, path: string, expected: string | number, isProof?: boolean]>([
  ['a stranger, one workspace', '/workspaces/current/tasks', '/workspaces/ws_1/tasks', true],
  ['a stranger, one workspace', '/workspaces/one/tasks', '/workspaces/ws_1/tasks', true],
  ['a stranger, one workspace', '/tasks/tsk_ours/work-items', '/tasks/tsk_ours/work-items', true],
  ['a stranger, one workspace', '/tasks/tsk_other/work-items', '/tasks/tsk_other/work-items', false],
  ['a stranger, one workspace', '/workspaces/ws_2/tasks', 403],
  ['a stranger, one workspace of unknown id', '/workspaces/current/tasks', '/workspaces/current/tasks', false],
  ['a stranger, one workspace of unknown id', '/workspaces/ws_1/tasks', '/workspaces/ws_1/tasks', false],
  ['a stranger, two workspaces', '/workspaces/current/tasks', 400],
  ['a stranger, two workspaces', '/workspaces/ws_2/tasks', '/workspaces/ws_2/tasks', true],
  ['a stranger, two workspaces', '/workspaces/two/tasks', '/workspaces/ws_2/tasks', true],
  ['a token of the first of two workspaces', '/workspaces/current/tasks', '/workspaces/ws_1/tasks', true],
  ['a token of the first of two workspaces', '/tasks/tsk_any/work-items', '/tasks/tsk_any/work-items', true],
  ['a token of the first of two workspaces', '/workspaces/ws_2/tasks', 403],
  ['a token of the first of two workspaces', '/workspaces/two/tasks', 403],
])('the destination of %s, at %s: %s', async (who, path, expected, isProof) => {
  const [caller, upstreams] = CASES[who];
  const found = await destinationOf({ upstreams, elsewhere: [] }, caller, path);
  expect(found).toMatchObject(typeof expected === 'number' ? { status: expected } : { path: expected, isProof });
  if (path === '/workspaces/ws_2/tasks' && isProof) expect(found).toMatchObject({ upstream: { name: 'two' } });
});

test.each([
  ['/api/v1/tasks/tsk_1/work-items?a=1', '/tasks/tsk_1/work-items'],
  ['/api/v1/%c3%a9', '/%c3%a9'],
  ['/api/v1/@example.com/', '/@example.com/'],
])('the path of %s is %s', (url, path) => expect(pathOf(url)).toBe(path));

const PATHLESS = `/api/v1 /api/v1/ /api/v1//a /api/v1/a//b /api/v1/a/../../b /api/v1/.. /api/v1/a/%2E%2e/b /api/v1/a%2fb
  /api/v1/a%5Cb /api/v1/a%252eb /api/v1/a\\b /api/v1/a#b /api/v1/a?b#c /api/v1/a;b /api/v1/%a /api/v1/%zz /api/v1/a%00b
  /api/v1/%252e%252e/b /api/v1/a/./b /api/v1/a/.. /api/v1/.%2e/b /API/v1/a http://elsewhere/api/v1/a`;
test.each(PATHLESS.split(/\s+/))('%s has no path', (url) => expect(pathOf(url)).toBeUndefined());

describe('the throttle of credentials', () => {
  test('lets in as many at a time as may still be wrong; then one a minute', async () => {
    const clock = createTravellingClock();
    const throttle = createCredentialThrottle(clock);
    const answers: boolean[] = [];
    for (let n = 0; n < 8; n++) void throttle.enter('a').then((isIn) => answers.push(isIn));
    await clock.advance(0);
    expect(answers).toEqual([true, true, true, true, true]);
    for (let n = 0; n < 5; n++) throttle.leave('a', true);
    await clock.advance(0);
    expect(answers.slice(5)).toEqual([false, false, false]);
    expect(await throttle.enter('a')).toBe(false);
    expect(await throttle.enter('b')).toBe(true);
    await clock.advance(60_000);
    expect(await throttle.enter('a')).toBe(true);
  });

  test('an accepted credential makes room for the next', async () => {
    const clock = createTravellingClock();
    const throttle = createCredentialThrottle(clock);
    let inside = 0;
    for (let n = 0; n < 20; n++) void throttle.enter('a').then(() => inside++);
    await clock.advance(0);
    expect(inside).toBe(5);
    for (let n = 0; n < 15; n++) {
      throttle.leave('a', false);
      await clock.advance(0);
    }
    expect(inside).toBe(20);
  });
});

let store: OpenedStore;

beforeEach(async () => {
  store = await openStore({ file: ':memory:' });
});
afterEach(async () => {
  await store.close();
});

it('does not know a token again that was revoked while an earlier read was under way', async () => {
  const late = withLateAnswers(store.database, (number) => number === 1);
  const others = createTokenBook(late.query);
  const book = createTokenBook(store.database);
  const tokens = createTokens(store, book, createTravellingClock(), systemRandom());
  const { id, secret } = await tokens.create('for the bot');
  const earlier = others.reread();
  await tokens.revoke(id);
  await others.reread();
  expect(others.recall(secret)).toBeUndefined();
  late.release();
  await earlier;
  expect(others.recall(secret)).toBeUndefined();
  expect(await others.withId(id)).toBeUndefined();
});

it('ends the creation or revocation of a token only when this process and the others know of it', async () => {
  let isTold = false;
  const tellOthers = async () => {
    await nextTurnOfLoop();
    isTold = true;
  };
  const book = createTokenBook(store.database, tellOthers);
  const tokens = createTokens(store, book, createTravellingClock(), systemRandom());
  const { id, secret } = await tokens.create('for the bot');
  expect([isTold, book.recall(secret)?.id]).toEqual([true, id]);
  isTold = false;
  expect([await tokens.revoke(id), isTold, book.recall(secret)]).toEqual([true, true, undefined]);
  expect(await tokens.revoke(id)).toBe(false);
});
