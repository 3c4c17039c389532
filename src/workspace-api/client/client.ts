import { asSyncError, type ErrorCode, SyncError, wasSent } from '../../model/errors.ts';
import {
  addCompletion,
  forgetBefore,
  roomInAll,
  UNKNOWN_GRACE,
  type Window,
  type WindowUse,
  windowOf,
} from '../../model/windows.ts';
import { createHttpClient, isSafe, isSuccess } from '../../platform/http/http-client.ts';
import {
  backoff,
  type Clock,
  keepAlive,
  type Random,
  sleep,
  systemClock,
  systemRandom,
} from '../../platform/lib/clock.ts';
import type { Answered, Parameters, RouteName, Routes } from '../contract.ts';
import {
  type ApiAnswer,
  type Cancellable,
  createSend,
  createWorkspaceClient,
  failureOf,
  type Send,
  type WorkspaceClient,
} from '../typed-client.ts';

/** `worksync/client`: the workspace API for other programs, built from the daemon's own client. */
export interface ConnectOptions {
  /** The address of the workspace API, or of the daemon's gateway; ends in `/api/v1`. */
  readonly url: string;
  /** An API key, an OAuth token, or a token of the gateway. A function is called before each request. */
  readonly apiKey: string | (() => string);
  /** `current` by default: the workspace of the key. */
  readonly workspaceId?: string;
  /** The quota of this process; `off` behind the gateway, which throttles all callers. */
  readonly quota?: Quota | 'off';
  /** Attempts per request; 4 by default. */
  readonly attempts?: number;
}

/** The two windows: 200 requests in 15 minutes and 40 in a minute by default; 0 lifts a limit. Lengths in milliseconds. */
export interface Quota {
  readonly requests?: number;
  readonly window?: number;
  readonly burst?: number;
  readonly burstWindow?: number;
}

/** Routes whose answer is a page. */
export type PagedRoute = {
  [Name in RouteName]: Answered<Routes[Name]> extends { readonly nextCursor: string | null } ? Name : never;
}[RouteName];

export type Workspace = {
  /** Each operation of the API. Resolves with a success only; throws `WorkspaceError` otherwise. */
  readonly [Name in RouteName]: (
    parameters: Parameters<Routes[Name]>,
    options?: Cancellable,
  ) => Promise<ApiAnswer<Answered<Routes[Name]>>>;
} & {
  /** Iterates over the pages of a list; each is requested when the one before was consumed. */
  pages<Name extends PagedRoute>(
    name: Name,
    parameters: Parameters<Routes[Name]>,
    options?: Cancellable,
  ): AsyncGenerator<Answered<Routes[Name]>, void>;
  /** Closes the connections after the requests in flight have ended. */
  close(): Promise<void>;
};

const SPECIFIED = { requests: 200, window: 900_000, burst: 40, burstWindow: 60_000 };
const ATTEMPTS = 4;
/** First ceiling of the pause before a repetition, and the longest, milliseconds. */
const BACKOFF = [1_000, 60_000] as const;

export function connect(options: ConnectOptions): Workspace {
  const { url, apiKey, workspaceId = 'current', quota = {}, attempts = ATTEMPTS } = options;
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? '')) throw new SyncError('usage', 'url: expected an HTTP address');
  const http = createHttpClient();
  const transport = createSend({ http, baseUrl: url, apiKey: typeof apiKey === 'string' ? () => apiKey : apiKey });
  const clock = systemClock();
  const pacing = createPacing(clock, windowsOf(quota));
  const send = repeating(transport, pacing, clock, systemRandom(), attempts);
  const methods = createWorkspaceClient<Cancellable | undefined>({ send: stayingAlive(send), workspaceId });
  return { ...methods, pages: pagesOf(methods), close: () => http.close() };
}

function windowsOf(quota: Quota | 'off') {
  if (quota === 'off') return [];
  const { requests, window, burst, burstWindow } = { ...SPECIFIED, ...quota };
  return [windowOf(requests, window), windowOf(burst, burstWindow)].filter(({ cap }) => cap > 0);
}

/** Timers alone keep no process alive, and a script that only waits for a slot must continue. */
function stayingAlive<Context>(send: Send<Context>): Send<Context> {
  return async (request, context) => {
    const release = keepAlive();
    try {
      return await send(request, context);
    } finally {
      release();
    }
  };
}

/** Repeats requests that may be repeated, after a pause. While the quota is used up, all requests pause. */
function repeating(
  send: Send<Cancellable>,
  pacing: Pacing,
  clock: Clock,
  random: Random,
  attempts: number,
): Send<Cancellable | undefined> {
  const sendOnce: typeof send = async (request, { signal }) => {
    const answer = await pacing.through(() => send(request, { signal }), signal);
    if (!isSuccess(answer.status)) throw failureOf(answer, request);
    return answer;
  };
  return async (request, { signal } = {}) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await sendOnce(request, { signal });
      } catch (error) {
        const { code, retryAfter } = asSyncError(error);
        if (attempt >= attempts || !mayRepeat(code, request.method)) throw error;
        const wait = retryAfter ?? backoff(random, attempt, ...BACKOFF);
        if (code === 'rate_limited') pacing.pause(wait);
        else await sleep(clock, wait, signal);
      }
    }
  };
}

/** Whether the server certainly did not carry the request out, or the request only reads. */
function mayRepeat(code: ErrorCode, method: string): boolean {
  if (code === 'rate_limited' || code === 'unreachable') return true;
  return isSafe(method) && (code === 'server_failed' || code === 'outcome_unknown');
}

function pagesOf(methods: WorkspaceClient<Cancellable | undefined>): Workspace['pages'] {
  return async function* pages(name, parameters, options) {
    const list = methods[name] as unknown as (given: object, options?: Cancellable) => Promise<ApiAnswer<Page>>;
    const { query } = parameters as { readonly query?: object };
    for (let cursor: Cursor = {}; cursor; ) {
      const { body }: ApiAnswer<Page> = await list({ ...parameters, query: { ...query, ...cursor } }, options);
      yield body as never;
      // A page that names itself as the next one would never end.
      if (body.nextCursor !== null && body.nextCursor === cursor.cursor)
        throw new SyncError('answer_malformed', `${name}: the next page is the same again`);
      cursor = body.nextCursor === null ? undefined : { cursor: body.nextCursor };
    }
  };
}

interface Page {
  readonly nextCursor: string | null;
}
type Cursor = { readonly cursor?: string } | undefined;

/** `errorCode` is the workspace's own code, `code` ours; `retryAfter` in milliseconds. */
export { SyncError as WorkspaceError } from '../../model/errors.ts';
export type { ApiAnswer, Cancellable } from '../typed-client.ts';

type Pacing = ReturnType<typeof createPacing>;

/** Keeps the requests of one process within the windows of the quota: the daemon's arithmetic, in memory alone. */
export function createPacing(clock: Clock, windows: readonly Window[]) {
  const use: WindowUse = { inFlight: 0, completed: [] };
  const longestHold = Math.max(0, ...windows.map(({ hold }) => hold));
  let pausedUntil = Number.NEGATIVE_INFINITY;
  /** Resolves when everybody before has left the line. */
  let line: Promise<void> = Promise.resolve();
  /** Wakes the first of the line. */
  let changed = new AbortController();

  async function takeSlot(signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      if (signal?.aborted) throw aborted();
      const now = clock.monotonic();
      const at = Math.max(pausedUntil, roomInAll(use, windows));
      if (at <= now) break;
      changed = new AbortController();
      await sleep(clock, at - now, signal ? AbortSignal.any([signal, changed.signal]) : changed.signal);
    }
    use.inFlight += 1;
  }

  /** @param ended monotonic milliseconds; absent where nothing was sent */
  function giveBack(ended: number | undefined): void {
    use.inFlight -= 1;
    if (ended !== undefined) addCompletion(use.completed, ended);
    forgetBefore(use.completed, clock.monotonic() - longestHold);
    changed.abort();
  }

  return {
    /** Runs `exchange` when each window has room for it, in the order of the calls. Throws `aborted` while it waits. */
    async through<Answer>(exchange: () => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
      const before = line;
      const { promise: left, resolve: leave } = Promise.withResolvers<void>();
      line = left;
      try {
        await unlessAborted(before, signal);
        await takeSlot(signal);
      } finally {
        void before.then(leave);
      }
      try {
        const answer = await exchange();
        giveBack(clock.monotonic());
        return answer;
      } catch (error) {
        giveBack(wasSent(asSyncError(error)) ? clock.monotonic() + UNKNOWN_GRACE : undefined);
        throw error;
      }
    },
    /** Nothing more begins for so long, milliseconds. */
    pause(ms: number): void {
      pausedUntil = Math.max(pausedUntil, clock.monotonic() + ms);
    },
  };
}

function aborted(): SyncError {
  return new SyncError('aborted', 'the caller gave up while the request waited for the quota');
}

function unlessAborted(before: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (!signal) return before;
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(aborted());
    const giveUp = () => reject(aborted());
    signal.addEventListener('abort', giveUp, { once: true });
    void before.then(() => {
      signal.removeEventListener('abort', giveUp);
      resolve();
    });
  });
}
