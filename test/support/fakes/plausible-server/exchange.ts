import type { Clock } from '../../../../src/platform/lib/clock.ts';
import { ID_PATTERN, ROUTES, type Route, type RouteName } from '../../../../src/workspace-api/contract.ts';
import type { Seen } from './seen.ts';

export type Fields = Readonly<Record<string, unknown>>;

export interface Call {
  readonly route: RouteName;
  readonly ids: Readonly<Record<string, string>>;
  readonly method: string;
  /** Below the base address, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Fields;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A JSON value; undefined: no body. A string goes out as it is. */
  readonly body?: unknown;
}

export type Answering = (call: Call) => Promise<Reply>;

export interface Webhook {
  readonly headers: Readonly<Record<string, string>>;
  readonly event: { readonly type: string; readonly data: Fields } & Fields;
}

export type Delivering = (webhook: Webhook) => Promise<number>;

/** Context of a behaviour; each server makes its own behaviours, which may keep state. */
export interface Site {
  readonly clock: Clock;
  readonly seen: Seen;
}

export interface Behaviour {
  readonly showTask?: (task: Fields) => Fields;
  readonly showLink?: (link: Fields) => Fields;
  /** Answers a request, by changing it, by asking `next`, or by itself. */
  readonly answer?: (call: Call, next: Answering) => Promise<Reply>;
  /** Delivers an event. One that is passed on as the same object keeps its bytes and its signature. */
  readonly deliver?: (webhook: Webhook, next: Delivering) => Promise<number>;
}

export const isWrite = ({ method }: Call) => method !== 'GET';
export const isCreation = ({ route }: Call) => route === 'createBug' || route === 'createIdea';
export const isSuccess = ({ status }: Reply) => status >= 200 && status < 300;

/** A refusal with the error object (W66). */
export function refusal(status: number, errorCode: string, message: string): Reply {
  return { status, headers: {}, body: { code: status, message, errorCode } };
}

const ADDRESSES = (Object.entries(ROUTES) as [RouteName, Route][]).flatMap(
  ([route, { method, path, alsoAt, alsoBy }]) =>
    [method, ...(alsoBy === undefined ? [] : [alsoBy])].flatMap((each) =>
      [path, ...(alsoAt === undefined ? [] : [alsoAt])].map((address) => ({
        route,
        method: each,
        pattern: new RegExp(`^${address.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`),
      })),
    ),
);

/** The route of a request, by its path below the base address; undefined where the contract has none. */
export function routeOf(method: string, path: string): Pick<Call, 'route' | 'ids'> | undefined {
  for (const address of ADDRESSES) {
    const found = address.method === method ? address.pattern.exec(path) : null;
    if (!found) continue;
    const { workspaceId: _, ...ids } = found.groups ?? {};
    if (Object.values(ids).every((id) => ID_PATTERN.test(id))) return { route: address.route, ids };
  }
  // Not of the contract, but a server may remove links by their address.
  const [, taskId] = (method === 'DELETE' && /\/tasks\/([^/]+)\/work-items$/.exec(path)) || [];
  if (taskId !== undefined) return { route: 'removeWorkItem', ids: { taskId } };
  return undefined;
}
