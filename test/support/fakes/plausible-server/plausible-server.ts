import { SyncError } from '../../../../src/model/errors.ts';
import type { HttpAnswer, HttpClient, HttpRequest } from '../../../../src/platform/http/http-client.ts';
import type { Clock } from '../../../../src/platform/lib/clock.ts';
import { BASE_PATH, HEADER_PREFIX, webhookHeadersOf } from '../../../../src/workspace-api/contract.ts';
import { type Behaviours, DIMENSIONS, type Dimension, type Value } from './dimensions.ts';
import {
  type Answering,
  type Behaviour,
  type Call,
  type Delivering,
  type Fields,
  type Reply,
  routeOf,
  type Webhook,
} from './exchange.ts';
import { count, createSeen, effectCounter, type Seen, sawReply, sawRequest } from './seen.ts';
import { isTask } from './tasks.ts';

export interface PlausibleServerOptions {
  /** The clock of service and daemon. */
  readonly clock: Clock;
  readonly behaviours?: Behaviours;
  /** Whether the answer to this request is lost, once the service has carried it out. */
  readonly loses?: (call: Call, reply: Reply) => boolean;
}

/** The reference service, behaving in some dimensions as another server may. */
export interface PlausibleServer {
  readonly seen: Seen;
  /** The client of the daemon: requests to the workspace are answered as this server does; others pass. */
  daemonClient(own: HttpClient): HttpClient;
  /** The client with which the service sends webhooks: they come as this server sends them. */
  serviceClient(own: HttpClient): HttpClient;
}

/** From the service outwards. Between the first and the rest, tasks and links take the form that this server shows. */
const LAYERS: readonly Dimension[] = [
  ...(['task list', 'task object', 'source', 'creation fields', 'creation answer', 'link POST'] as const),
  ...(['link GET, DELETE', 'pull-request routes', 'single task route', 'task updates', 'webhooks'] as const),
  ...(['conditional reads', 'version header', 'limits', 'errors'] as const),
];

export function plausibleServer({ clock, behaviours = {}, loses }: PlausibleServerOptions): PlausibleServer {
  const seen = createSeen();
  const effects = effectCounter(seen);
  const made = LAYERS.map((dimension): Behaviour => {
    const values: Readonly<Record<string, Value>> = DIMENSIONS[dimension];
    return values[behaviours[dimension] ?? defaultOf(dimension)]?.make?.({ clock, seen }) ?? {};
  });
  const [list, ...others] = made as [Behaviour, ...Behaviour[]];
  const shown: Behaviour = { answer: async (call, next) => showReply(made, await next(call)) };
  const layers = [list, shown, ...others].flatMap(({ answer }) => answer ?? []);
  const deliveries = made.flatMap(({ deliver }) => deliver ?? []);

  const answering = (send: Answering, sent: Fields): Answering =>
    layers.reduce<Answering>(
      (next, answer) => (call) => answer(call, next),
      async (call) => {
        const reply = await send(call);
        effects.carriedOut(call, reply, sent);
        return reply;
      },
    );

  return {
    seen,
    daemonClient: (own) => ({
      async request(request) {
        const call = request.target === 'workspace' ? readCall(request) : undefined;
        if (call === undefined) return own.request(request);
        sawRequest(seen, call);
        const send = async (inner: Call) => readReply(await own.request(requestOf(request, inner)));
        const reply = await answering(send, call.body)(call);
        sawReply(seen, call, reply);
        if (loses?.(call, reply)) throw new SyncError('outcome_unknown', 'the answer was lost');
        return answerOf(reply);
      },
      close: () => own.close(),
    }),
    serviceClient: (own) => ({
      async request(request) {
        if (request.target !== 'webhook') return own.request(request);
        const event = JSON.parse(String(request.body)) as Webhook['event'];
        const webhook = { headers: request.headers ?? {}, event: showEvent(made, event) };
        const send: Delivering = async (given) => {
          const { status } = await own.request(given.event === event ? request : changed(request, given));
          if (status < 300) count(seen.webhooks, given.event.type);
          return status;
        };
        const deliver = deliveries.reduce<Delivering>((next, each) => (given) => each(given, next), send);
        return { status: await deliver(webhook), headers: {}, body: Buffer.alloc(0) };
      },
      close: () => own.close(),
    }),
  };
}

function defaultOf(dimension: Dimension): string {
  return Object.keys(DIMENSIONS[dimension]).find((name) => !/^\d+$/.test(name))!;
}

function showReply(made: readonly Behaviour[], reply: Reply): Reply {
  const { body } = reply;
  if (typeof body !== 'object' || body === null || reply.status >= 300) return reply;
  if (Array.isArray(body)) return { ...reply, body: body.map((each: Fields) => showOne(made, each)) };
  const lists = Object.entries(body).map(([name, value]) =>
    (name === 'tasks' || name === 'workItems') && Array.isArray(value)
      ? [name, value.map((each: Fields) => showOne(made, each))]
      : [name, value],
  );
  return { ...reply, body: showOne(made, Object.fromEntries(lists) as Fields) };
}

/** A task or a link as this server shows it; everything else as it is. */
function showOne(made: readonly Behaviour[], given: Fields): Fields {
  if ('workItemId' in given) return made.reduce((link, { showLink }) => showLink?.(link) ?? link, given);
  if (isTask(given) && 'title' in given && 'status' in given && !('documentId' in given))
    return made.reduce((task, { showTask }) => showTask?.(task) ?? task, given);
  return given;
}

/** Returns the same object if no behaviour changes it. */
function showEvent(made: readonly Behaviour[], event: Webhook['event']): Webhook['event'] {
  const data = Object.entries(event.data).map(([name, value]) =>
    name === 'task' || name === 'work_item' ? [name, showOne(made, value as Fields)] : [name, value],
  );
  const isSame = made.every(({ showTask, showLink }) => showTask === undefined && showLink === undefined);
  return isSame ? event : { ...event, data: Object.fromEntries(data) as Fields };
}

function readCall(request: HttpRequest): Call | undefined {
  const url = new URL(request.url);
  const start = url.pathname.indexOf(`${BASE_PATH}/`);
  const path = url.pathname.slice(start + BASE_PATH.length);
  const found = start < 0 ? undefined : routeOf(request.method, path);
  if (found === undefined) return undefined;
  const headers = Object.entries(request.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    ...found,
    path,
    method: request.method,
    query: url.searchParams,
    headers: Object.fromEntries(headers) as Record<string, string>,
    body: readText(String(request.body ?? '{}')) as Fields,
  };
}

function requestOf(request: HttpRequest, { method, path, query, headers, body }: Call): HttpRequest {
  const url = new URL(request.url);
  url.pathname = url.pathname.slice(0, url.pathname.indexOf(`${BASE_PATH}/`)) + BASE_PATH + path;
  url.search = query.toString();
  const { keep: _, ...rest } = request;
  const isSent = request.body !== undefined && method !== 'GET';
  const own = { ...rest, method: method as HttpRequest['method'], url: url.href, headers };
  return isSent ? { ...own, body: JSON.stringify(body) } : { ...own, body: undefined };
}

function readReply({ status, headers, body }: HttpAnswer): Reply {
  const { 'content-length': _, ...others } = headers;
  return { status, headers: others, ...(body.length > 0 && { body: readText(body.toString()) }) };
}

function readText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function answerOf({ status, headers, body }: Reply): HttpAnswer {
  if (body === undefined) return { status, headers, body: Buffer.alloc(0) };
  const isText = typeof body === 'string';
  const typed = isText ? headers : { ...headers, 'content-type': 'application/json; charset=utf-8' };
  return { status, headers: typed, body: Buffer.from(isText ? body : JSON.stringify(body)) };
}

const SIGNATURE = webhookHeadersOf(HEADER_PREFIX).signature;

/** With the shared key only: a changed event has no valid signature. */
function changed(request: HttpRequest, { event, headers }: Webhook): HttpRequest {
  const { [SIGNATURE]: _, ...others } = headers;
  return { ...request, headers: others, body: JSON.stringify(event) };
}
