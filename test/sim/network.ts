import { SyncError } from '../../src/model/errors.ts';
import type { HttpAnswer, HttpClient, HttpRequest } from '../../src/platform/http/http-client.ts';
import type { Server } from '../../src/platform/http/server.ts';
import { WORKSPACE as OWN } from '../../src/store/workspace/workspace-reads.ts';
import { WEBHOOK_HEADERS } from '../../src/workspace-api/contract.ts';
import type { Chance } from '../bench/quota/references/chance.ts';
import type { TravellingClock } from '../support/fakes/travelling-clock.ts';
import type { Recorder } from './history.ts';
import type { Life } from './life.ts';
import type { Trouble, Weather } from './weather.ts';

export interface PlainAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
type Handle = (request: HttpRequest) => Promise<PlainAnswer> | PlainAnswer;

interface Surroundings {
  readonly clock: TravellingClock;
  readonly weather: Weather;
  readonly chance: Chance;
  readonly recorder: Recorder;
  /** All messages take the same time. */
  readonly isSteady: boolean;
}

/** Milliseconds, as of the daemon's own client. */
const PATIENCE = 30_000;
/** The time of each message on a steady network, milliseconds. */
const STEADY = 60;
/** A sender of webhooks waits less. */
const SENDERS_PATIENCE = 10_000;
/** The latest arrival after the sender gave up, milliseconds: as long as worksync counts the request as in flight. */
const LATEST = 9_000;

/** How one message goes: milliseconds until it arrives and until the answer is back; null: never. */
interface Course {
  readonly there: number | null;
  readonly back: number | null;
  /** When the sender hears that it failed, though nobody answered. */
  readonly fails?: number;
  readonly unsent?: boolean;
  /** In place of carrying it out, and in place of the answer. */
  readonly instead?: PlainAnswer;
  readonly answer?: PlainAnswer;
}

export type Network = ReturnType<typeof createNetwork>;

/** All messages between machines; each takes its time, and the weather decides what becomes of it. */
export function createNetwork({ clock, weather, chance, recorder, isSteady }: Surroundings) {
  const servers = new Map<string, Handle>();
  let messages = 0;

  const latency = () => (isSteady ? STEADY : Math.min(5_000, Math.ceil(chance.lognormal(60, 0.7))));

  function courseOf(trouble: Trouble | undefined, host: string): Course {
    const [there, back] = [latency(), latency()];
    switch (trouble) {
      case undefined:
        return { there, back };
      case 'unreachable':
        return { there: null, back: null, fails: there, unsent: true };
      case 'lost-before':
        return { there: null, back: null, ...(chance.happens(0.5) && { fails: chance.whole(100, 9_000) }) };
      case 'lost-after':
        return { there, back: null, ...(chance.happens(0.5) && { fails: there + chance.whole(1, 9_000) }) };
      case 'late': {
        const fails = chance.whole(100, 3_000);
        return { there: fails + chance.whole(1, LATEST - 1), back: null, fails };
      }
      case 'failed-before':
        return { there, back, instead: errorOf(chance.happens(0.5) ? 500 : 503, 'internal_error', 'it broke') };
      case 'failed-after':
        return {
          there,
          back,
          answer: { status: 502, headers: { 'content-type': 'text/html' }, body: '<h1>Bad gateway' },
        };
      case 'limited': {
        const seconds = chance.whole(1, 90);
        const message = `standard rate limit exceeded, retry in ${seconds} seconds`;
        const refusal = errorOf(429, 'rate_limit_exceeded', message);
        // The workspace says it in words alone.
        const headers = { ...refusal.headers, ...(host !== WORKSPACE && { 'retry-after': String(seconds) }) };
        return { there, back, instead: { ...refusal, headers } };
      }
      case 'silent':
        return { there, back: null };
      case 'hidden':
        return { there, back, instead: errorOf(404, 'not_found', 'Not Found') };
      case 'revoked':
        return { there, back, instead: errorOf(401, 'unauthorized', 'the credential is not known') };
      case 'slow':
        return { there, back: chance.whole(1_000, 40_000) };
    }
  }

  async function handle(request: HttpRequest, id: number, from: string): Promise<PlainAnswer | undefined> {
    const { origin, host, pathname, search } = new URL(request.url);
    const serve = servers.get(origin);
    if (!serve) return undefined;
    const body = String(request.body ?? '');
    recorder.record({ what: 'arrived', id, from, server: host, method: request.method, path: pathname + search, body });
    const answer = await serve(withShortPages(request, weather.longestPage()));
    recorder.record({ what: 'answered', id, status: answer.status, body: answer.body });
    return answer;
  }

  /** @param heard what the sender hears: an answer, or nothing; `unsent` where it is certain that nothing left */
  function travel(
    request: HttpRequest,
    from: string,
    id: number,
    heard: (answer: PlainAnswer | undefined, unsent: boolean) => void,
  ): void {
    const { origin, host } = new URL(request.url);
    const course = courseOf(weather.of(host, String(request.body ?? '')), host);
    const { there, back, fails } = course;
    if (fails !== undefined) clock.after(fails, () => heard(undefined, course.unsent ?? false));
    if (there === null) return;
    const arrive = async () => {
      if (course.instead) {
        recorder.record({ what: 'arrived', id, from, server: host, method: request.method, path: '', body: '' });
        recorder.record({ what: 'answered', id, status: course.instead.status, body: course.instead.body });
        if (back !== null) clock.after(back, () => heard(course.instead, false));
        return;
      }
      if (!servers.has(origin)) return heard(undefined, true);
      const answer = await handle(request, id, from);
      if (back !== null && answer) clock.after(back, () => heard(course.answer ?? answer, false));
    };
    clock.after(there, () => void arrive());
  }

  function exchange(life: Life, request: HttpRequest): Promise<HttpAnswer> {
    const id = ++messages;
    return new Promise((resolve, reject) => {
      let isOver = false;
      const end = (call: () => void, status = 0) => {
        if (isOver) return;
        life.whenAwake(() => {
          if (isOver) return;
          isOver = true;
          life.asks(-1);
          cancel();
          request.signal?.removeEventListener('abort', abort);
          try {
            life.steps.reached('request', 'after');
          } catch {
            return;
          }
          recorder.record({ what: 'heard', id, status });
          call();
        });
      };
      const unknown = (why: string) => end(() => reject(new SyncError('outcome_unknown', `${request.url}: ${why}`)));
      const abort = () =>
        isSafe(request.method)
          ? end(() => reject(new SyncError('aborted', `${request.url} was aborted`)))
          : unknown('aborted');
      const cancel = life.clock.after(PATIENCE, () => unknown('out of time'));
      if (request.signal?.aborted) return end(() => reject(new SyncError('aborted', 'aborted before it was sent')));
      request.signal?.addEventListener('abort', abort, { once: true });
      const { name: from, replica } = life;
      const { method, url } = request;
      recorder.record({ what: 'sent', id, from, replica, method, url, body: String(request.body ?? '') });
      life.asks(1);
      travel(request, from, id, (answer, unsent) => {
        if (answer) end(() => resolve({ ...answer, body: Buffer.from(answer.body) }), answer.status);
        else if (unsent) end(() => reject(new SyncError('unreachable', `${request.url} was not sent`)));
        else unknown('the connection was cut');
      });
    });
  }

  return {
    /** Servers by their origin; one that listens nowhere refuses connections. */
    open: (origin: string, serve: Handle) => void servers.set(origin, serve),
    /** @param handle only where it is still this one that listens there */
    close(origin: string, handle?: Handle) {
      if (handle === undefined || servers.get(origin) === handle) servers.delete(origin);
    },
    clientOf: (life: Life): HttpClient => ({
      async request(request) {
        life.steps.reached('request', 'before');
        return exchange(life, request);
      },
      close: async () => undefined,
    }),
    /** A sender that is no process of ours. Undefined: it heard nothing. `id` names the exchange in what was seen. */
    send: (from: string, request: HttpRequest) =>
      new Promise<(PlainAnswer & { readonly id: number }) | undefined>((resolve) => {
        const id = ++messages;
        clock.after(SENDERS_PATIENCE, () => resolve(undefined));
        travel(request, from, id, (answer) => resolve(answer && { ...answer, id }));
      }),
    /** At once, past all weather: for looking, and for what people do. */
    direct: {
      async request(request) {
        const serve = servers.get(new URL(request.url).origin);
        if (!serve) throw new SyncError('unreachable', `${request.url}: nobody listens`);
        const answer = await serve(request);
        return { ...answer, body: Buffer.from(answer.body) };
      },
      close: async () => undefined,
    } satisfies HttpClient,
  };
}

function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}

function errorOf(status: number, errorCode: string, message: string): PlainAnswer {
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  return { status, headers, body: JSON.stringify({ code: status, message, errorCode }) };
}

export function handlerOf(server: Server): Handle {
  return async ({ method, url, headers, body }) => {
    const { host, pathname, search } = new URL(url);
    const payload = body === undefined ? {} : { payload: body };
    const answer = await server.inject({ method, url: pathname + search, headers: { ...headers, host }, ...payload });
    const texts = Object.entries(answer.headers).map(([name, value]) => [name, String(value)]);
    return { status: answer.statusCode, headers: Object.fromEntries(texts), body: answer.payload };
  };
}

/** Where the workspace is. Providers are at `<connection>.test`, and processes at `replica-<number>.test`. */
export const WORKSPACE = 'workspace.test';

/** How servers are told how long a page may be: the workspace, GitHub and GitLab, Bitbucket. */
const NAMES = ['limit', 'per_page', 'pagelen'];

/** The server gives pages no longer than this, whatever it is asked for: so that few rows fill several pages. */
function withShortPages(request: HttpRequest, longest: number): HttpRequest {
  if (request.method !== 'GET' || longest === Number.POSITIVE_INFINITY) return request;
  const url = new URL(request.url);
  const asked = NAMES.filter((name) => Number(url.searchParams.get(name)) > longest);
  if (asked.length === 0) return request;
  for (const name of asked) url.searchParams.set(name, String(longest));
  return { ...request, url: url.href };
}

/** Where the workspace sends its events; behind it each replica gets one in turn. */
const DOOR = 'http://daemon.test';
export const EVENTS_URL = `${DOOR}/webhooks/test/${OWN}`;

export function createEventSender(
  { send }: Pick<Network, 'send'>,
  recorder: Recorder,
  origins: () => readonly string[],
): HttpClient {
  let sent = 0;
  return {
    async request(request) {
      const all = origins();
      const url = request.url.replace(DOOR, all[sent++ % all.length] as string);
      const answer = await send('workspace', { ...request, url });
      const key = request.headers?.[WEBHOOK_HEADERS.eventId] ?? '';
      recorder.record({ what: 'hook', id: answer?.id, connection: OWN, key, status: answer?.status ?? 0 });
      if (!answer) throw new SyncError('outcome_unknown', `${url} answered nothing`);
      return { ...answer, body: Buffer.from(answer.body) };
    },
    close: async () => undefined,
  };
}
