import { inspect, isDeepStrictEqual } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import type {
  Connection,
  ConnectionDeps,
  Connector,
  GitProvider,
  MemberAccess,
  PollPage,
  Translation,
} from '../../../src/connectors/connector.ts';
import { SyncError } from '../../../src/model/errors.ts';
import type { Item, WorkItem } from '../../../src/model/item.ts';
import type { HttpAnswer, HttpClient, HttpRequest } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createTravellingClock, type TravellingClock } from '../fakes/travelling-clock.ts';
import { requireDocumented } from './vendor-requests/index.ts';
import { surprises } from './vendor-requests/surprises.ts';

/** An answer; its body is JSON unless it is a text. `isLost`: the request may have arrived, and no answer came. */
export type Reply = Partial<Omit<HttpAnswer, 'body'>> & { readonly body?: unknown; readonly isLost?: boolean };

/**
 * A request, as method and path with its query, and its answer: a status alone, or more. Then the JSON that is sent, and headers
 * of the request, if they matter. A query of `*` is any, and so is a request of `*`.
 */
export type Turn = readonly [
  expected: string,
  reply?: Reply | number,
  sent?: unknown,
  headers?: Readonly<Record<string, unknown>>,
];

interface Course {
  readonly requests: readonly HttpRequest[];
  readonly clock: TravellingClock;
  /** Turns that were not taken. Those that are left fail the test. */
  readonly rest: Turn[];
  readonly http: HttpClient;
}

/**
 * A client over a written course of answers: each request must be the one that is due, and documented. A test that leaves
 * turns, or asks what is not due, fails.
 */
function playing(origin: string, course: readonly Turn[], clock = createTravellingClock()): Course {
  const requests: HttpRequest[] = [];
  const rest = [...course];
  onTestFinished(() => {
    if (rest.length > 0) throw new Error(`was never asked for: ${rest.map(([expected]) => expected).join(', ')}`);
  });
  const http = {
    async request(request: HttpRequest): Promise<HttpAnswer> {
      requests.push(request);
      requireDocumented(request);
      const turn = rest.shift() ?? ['nothing'];
      const problem = differenceOf(request, origin, turn);
      if (problem !== undefined) {
        surprises.push(problem);
        throw new Error(problem);
      }
      return answerOf(turn[1] ?? {});
    },
    close: async () => {},
  };
  return { requests, rest, clock, http };
}

function differenceOf(request: HttpRequest, origin: string, [expected, , sent, headers]: Turn): string | undefined {
  const [path = '', query] = request.url.replace(origin, '').split(/\?(.*)/s);
  const known = expected.endsWith('?*') ? '?*' : `?${decodeURIComponent(query?.replaceAll('+', ' ') ?? '')}`;
  const asked = `${request.method} ${path}${query === undefined ? '' : known}`;
  if (expected !== '*' && asked !== expected) return `${asked} came instead of ${expected}`;
  if (sent !== undefined && !isDeepStrictEqual(JSON.parse(String(request.body)), JSON.parse(JSON.stringify(sent))))
    return `${String(request.body)} was sent instead of ${JSON.stringify(sent)}`;
  for (const [name, value] of Object.entries(headers ?? {})) {
    const given = request.headers?.[name];
    const isRight = value instanceof RegExp ? value.test(given ?? '') : value === given;
    if (!isRight) return `${asked} came with ${name}: ${given}`;
  }
  return undefined;
}

function answerOf(reply: Reply | number): HttpAnswer {
  const {
    status = 200,
    headers = {},
    body = '',
    isLost = false,
  } = typeof reply === 'number' ? { status: reply } : reply;
  if (isLost) throw new SyncError('outcome_unknown', 'the connection was reset');
  return { status, headers, body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)) };
}

interface ConnectionCourse<Options> extends Course {
  readonly connection: Required<Connection>;
  readonly options: Options;
}

/** A connection over such a course. */
export function courseOf<Options>(
  connector: Connector<Options>,
  given: object,
  origin: string,
  course: readonly Turn[],
): ConnectionCourse<Options> {
  const options = connector.options.parse(given);
  const played = playing(origin, course);
  return { ...played, options, connection: connect(connector, options, played) };
}

function connect<Options>(connector: Connector<Options>, options: Options, deps: Pick<Course, 'http' | 'clock'>) {
  return connector.connect(options, depsOf(deps)) as Required<Connection>;
}

function depsOf({ http, clock }: Pick<Course, 'http' | 'clock'>): ConnectionDeps {
  return { http, clock, logger: silentLogger };
}

export async function failure(work: Promise<unknown> | undefined): Promise<SyncError | undefined> {
  return work?.then(
    () => undefined,
    (error: unknown) => error as SyncError,
  );
}

/** JSON that no vendor promised. */
const NONSENSE = [null, 7, 'text', [], {}, [null], [{}], { values: [null] }, { data: null }, { error: null }];

/** Answers each request as the course does, whatever comes before it, except one, whose answer is nonsense. */
function replacing(origin: string, course: readonly Turn[], { at, by }: { at: number; by: unknown }): HttpClient {
  let count = 0;
  return {
    async request(request) {
      const isSame = ([expected]: Turn) => differenceOf(request, origin, [expected]) === undefined;
      const due = course[count];
      const turn = due && isSame(due) ? due : course.find(isSame);
      const answer = answerOf(turn?.[1] ?? 404);
      return count++ === at ? { ...answer, body: Buffer.from(JSON.stringify(by)) } : answer;
    },
    close: async () => {},
  };
}

/** Acts once for each answer of a course and each nonsense in its place. */
async function expectOnlyCodes(
  origin: string,
  course: readonly Turn[],
  act: (deps: Pick<Course, 'http' | 'clock'>) => Promise<unknown>,
): Promise<void> {
  for (const at of course.keys())
    for (const by of NONSENSE) {
      const http = replacing(origin, course, { at, by });
      const thrown: unknown = await act({ http, clock: createTravellingClock() }).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (thrown === undefined || (thrown instanceof SyncError && thrown.code !== 'internal')) continue;
      throw new Error(`${course[at]?.[0]} answered with ${JSON.stringify(by)}: ${inspect(thrown)}`);
    }
}

/** A connector with the options of a connection, and the origin of its vendor's API. */
export interface Party<Options = unknown> {
  readonly connector: Connector<Options>;
  readonly given: object;
  readonly origin: string;
}

/**
 * An act, the requests that follow with their answers, the expected result (none if absent), and options beside those of the
 * party.
 */
type Conversation = readonly [
  act: (connection: Required<Connection>) => Promise<unknown>,
  course: readonly Turn[],
  expected?: unknown,
  more?: object,
];

/**
 * A test for each conversation. Of an object that comes of it, what is expected must be in it; `exactly` says that nothing else
 * is. An error that is thrown comes of it too: see `failing`. One more test repeats them all with nonsense for answers.
 */
export function conversations<Options>(party: Party<Options>, rows: Readonly<Record<string, Conversation>>): void {
  const { connector, origin } = party;
  it.each(Object.entries(rows))('%s', async (_, [act, course, expected, more]) => {
    const { connection } = courseOf(connector, { ...party.given, ...more }, origin, course);
    expectResult(await act(connection).catch((error: unknown) => error), expected);
  });

  it('throws only errors with a code, whatever an answer contains', async () => {
    for (const [act, course, , more] of Object.values(rows)) {
      const options = connector.options.parse({ ...party.given, ...more });
      await expectOnlyCodes(origin, course, async (deps) => act(connect(connector, options, deps)));
    }
  });
}

function expectResult(came: unknown, expected: unknown): void {
  if (expected instanceof Exactly) expect(came).toEqual(expected.value);
  else if (Array.isArray(expected)) {
    expect(came).toHaveLength(expected.length);
    expect(came).toMatchObject(expected);
  } else if (isPlain(expected)) expect(came).toMatchObject(expected);
  else expect(came).toEqual(expected);
}

class Exactly {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }
}

export const exactly = (value: unknown) => new Exactly(value);

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

export function failing(code: string, errorCode?: string, words = ''): unknown {
  return expect.objectContaining({ code, errorCode, message: expect.stringContaining(words) });
}

/** Items of a page or of a fetched object, if it holds any. */
export function itemsIn<Options>(
  { connector, given }: Party<Options>,
  came: PollPage | { readonly event: string; readonly body: Buffer },
  source: 'poll' | 'fetch' = 'poll',
): readonly Item[] {
  if ('outcome' in came && came.outcome !== 'page') throw new Error(came.outcome);
  const { event, body } = came;
  const translation = connector.translate({ source, event, body }, connector.options.parse(given));
  return translation.outcome === 'items' ? translation.items : [];
}

const { signal } = new AbortController();

type Act = (git: GitProvider, access: MemberAccess) => Promise<unknown>;

/** An action of a member, the requests that it causes, and its result: a value or an error. */
type Writing = readonly [name: string, act: Act, course: readonly Turn[], expected: unknown];

export interface WritesProfile {
  readonly connector: Connector<never>;
  readonly origin: string;
  readonly access: MemberAccess;
  /** Stands on every request that names no other. */
  readonly authorization: string;
  readonly cases: readonly Writing[];
}

export function actsIn(repoId: string) {
  const wanted = { repoId, title: 'A change', description: 'Text', headBranch: 'feature', baseBranch: 'main' };
  return {
    has:
      (branch: string, more: object = {}, by: object = {}): Act =>
      async (git, access) =>
        git.hasBranch({ ...access, ...by }, { repoId, branch, ...more }, signal),
    open:
      (more: object = {}, by: object = {}): Act =>
      (git, access) =>
        git.openPullRequest({ ...access, ...by }, { ...wanted, ...more }, signal),
    edit:
      (fields: object): Act =>
      (git, access) =>
        git.editPullRequest(access, { repoId, identifier: '12', ...fields }, signal),
  };
}

/** The result of a write: fields of the pull request, and the reason why a part of it was refused. */
export function written(repoId: string) {
  return (fields: object, refused?: unknown) => ({ repoId, pullRequest: expect.objectContaining(fields), refused });
}

/** A test for each conversation, as `conversations`; each request is sent with the authorization of the member. */
export function writings({ connector, origin, access, authorization, cases }: WritesProfile): void {
  it.each(cases)('%s', async (_, act, course, expected) => {
    const turns = course.map(
      ([asked, reply, sent, headers = { authorization }]) => [asked, reply, sent, headers] as const,
    );
    const git = connector.git!(depsOf(playing(origin, turns)));
    expect(await act(git, access).catch((error: unknown) => error)).toEqual(expected);
  });

  it('throws only errors with a code, whatever an answer contains', async () => {
    for (const [, act, course] of cases)
      await expectOnlyCodes(origin, course, async (deps) => act(connector.git!(depsOf(deps)), access));
  });
}

export function translationsOf<Options>({ connector, given }: Pick<Party<Options>, 'connector' | 'given'>) {
  const from =
    (source: 'webhook' | 'poll' | 'fetch') =>
    (event: string, payload: unknown, more: object = {}): Translation => {
      const body = Buffer.from(JSON.stringify(payload));
      return connector.translate({ source, event, body }, connector.options.parse({ ...given, ...more }));
    };
  return { hook: from('webhook'), page: from('poll'), fetched: from('fetch') };
}

/** The first item of a translation. Throws if it has none. */
export function itemOf<Kind extends Item = WorkItem>(translation: Translation): Kind {
  if (translation.outcome !== 'items') throw new Error(JSON.stringify(translation));
  return translation.items[0] as Kind;
}

export const MALFORMED = expect.objectContaining({ code: 'delivery_malformed' }) as Error;
