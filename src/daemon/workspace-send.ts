import type { DirectContext } from '../admin/open-workspace.ts';
import { LARGEST_PASSED } from '../gateway/outgoing.ts';
import type { Upstream } from '../gateway/upstream.ts';
import { CALLERS } from '../model/caller.ts';
import { CODES } from '../model/errors/codes.ts';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { duration } from '../platform/lib/quantities.ts';
import { withoutEnd } from '../platform/lib/text.ts';
import type { SendContext } from '../sync/outbox/send-context.ts';
import type { SlotAnswer } from '../sync/quota/cooldown.ts';
import type { Slot } from '../sync/quota/slot.ts';
import type { Throttle } from '../sync/quota/throttle.ts';
import type { ResponseCapture } from '../workspace-api/capture/capture-responses.ts';
import { API_VERSION, apiOverrides, VERSION_HEADER } from '../workspace-api/contract.ts';
import type { Send } from '../workspace-api/exchange.ts';
import type { ReadLarge } from '../workspace-api/large-answers.ts';
import { createSend } from '../workspace-api/transport.ts';
import { createWorkspaceClient, type WorkspaceClient } from '../workspace-api/typed-client.ts';
import { withoutKey } from './without-key.ts';

export interface DoorOptions {
  readonly http: HttpClient;
  readonly baseUrl: string;
  readonly workspaceId: string;
  readonly apiKey: () => string;
  /** Overrides of the contract, as the configuration holds them. */
  readonly api: unknown;
  /** Aborted when the process must end without waiting for answers. */
  readonly cut: AbortSignal;
  /** For answers that are large. */
  readonly readLarge: ReadLarge;
}

/** The client of the outbox: each request brings the slot that its transaction recorded. */
export function outboxClient(options: DoorOptions): WorkspaceClient<SendContext> {
  const send = transportOf(options);
  const { workspaceId, api, readLarge } = options;
  return createWorkspaceClient<SendContext>({
    ...{ workspaceId, api: apiOverrides.parse(api ?? {}), readLarge },
    send({ headers, ...request }, { traceparent }) {
      const traced = traceparent === undefined ? headers : { ...headers, traceparent };
      return send({ ...request, headers: traced }, { signal: options.cut });
    },
  });
}

type Answered = { readonly status: number; readonly headers: Readonly<Record<string, string>> };

/** Records a slot durably before its request is sent. @returns the revision of the request */
type Commit = (record: Slot['record']) => Promise<number>;

/** Runs one request under a slot of its own: recorded before `exchange` begins, completed when it has ended. */
export type Through = <Answer extends Answered>(
  context: DirectContext & { readonly credential: 'ours' | 'theirs' },
  /** Gets the revision of the request. */
  exchange: (revision: number) => Promise<Answer>,
) => Promise<Answer>;

/**
 * How everything but the outbox sends: commands, the gateway. Nothing goes around the throttle. `signal` ends the wait for a
 * slot; so does `patience`. If the wait is known to be longer, it does not wait at all: it throws why nothing is sent
 * (`rate_limited`, or what was said of the key), with `retryAfter`.
 */
export function throughThrottle(throttle: Throttle, clock: Clock, commit: Commit): Through {
  return async ({ credential, ...context }, exchange) => {
    const slot = await slotWithin(throttle, clock, context);
    let revision: number;
    try {
      revision = await commit((query) => slot.record(query));
    } catch (error) {
      slot.release();
      throw error;
    }
    let end: SlotAnswer | undefined;
    try {
      const answer = await exchange(revision);
      const key = credential === 'ours' ? keyOf(answer.status) : undefined;
      end = { status: answer.status, retryAfter: hint(answer.headers['retry-after']), key };
      return answer;
    } finally {
      await slot.complete(end);
    }
  };
}

async function slotWithin(
  throttle: Throttle,
  clock: Clock,
  { patience = Number.POSITIVE_INFINITY, lane, caller = CALLERS.command, signal }: DirectContext,
): Promise<Slot> {
  const due = clock.now();
  if (patience === Number.POSITIVE_INFINITY) return throttle.acquire({ lane, caller, due, signal });
  if (throttle.snapshot().nextForPeopleAt - due > patience) throw notNow(throttle, clock);
  const over = new AbortController();
  const cancel = clock.after(patience, () => over.abort());
  const gone = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
  try {
    return await throttle.acquire({ lane, caller, due, signal: gone });
  } catch (error) {
    throw over.signal.aborted && !signal?.aborted ? notNow(throttle, clock) : error;
  } finally {
    cancel();
  }
}

/** Why no request of people is sent now, and when one can be. */
function notNow(throttle: Throttle, clock: Clock): SyncError {
  const { paused, nextForPeopleAt } = throttle.snapshot();
  const retryAfter = Math.max(0, nextForPeopleAt - clock.now());
  const full =
    retryAfter > 0 ? 'the request quota of the workspace is used up' : 'the most requests allowed are in flight';
  const message = paused
    ? `nothing is sent to the workspace for ${duration(retryAfter)}: ${paused.reason}`
    : `${full}; the next one can go in ${duration(retryAfter)}`;
  return new SyncError(paused?.code ?? 'rate_limited', message, { retryAfter });
}

/** What an answer to a person's request says about our key. A missing right for one thing says nothing about the key. */
function keyOf(status: number): SlotAnswer['key'] {
  if (status === 401) return { code: 'unauthorized', reason: `unauthorized: ${CODES.unauthorized.hint}` };
  return status < 500 && status !== 403 ? null : undefined;
}

/** How commands send. Their answers go to `workspace-api/capture/`. */
export function directSend(
  options: DoorOptions,
  through: Through,
  clock: Clock,
  learn: ResponseCapture,
): Send<DirectContext> {
  const send = transportOf(options);
  return async (request, context) => {
    const asked = { query: '', ...request };
    let sentAt: number | undefined;
    let asOf = 0;
    try {
      const answer = await through({ ...context, credential: 'ours' }, (revision) => {
        sentAt = clock.now();
        asOf = revision - 1;
        return send(request, { signal: options.cut });
      });
      await learn.answered(asked, { ...answer, sentAt: sentAt ?? clock.now(), asOf });
      return answer;
    } catch (error) {
      if (sentAt !== undefined) await learn.failed(asked, asSyncError(error));
      throw error;
    }
  };
}

/** How the gateway sends: the request as the caller wrote it, with the caller's credential or, for a gateway token, with ours. */
export function forwardRequest(options: DoorOptions, clock: Clock, through: Through): Upstream['pass'] {
  const { http, baseUrl, apiKey, cut } = options;
  const version = versionHeaderOf(options.api);
  return ({ method, path, query, headers, body, room, authorization, caller }, waiting) =>
    through(
      { lane: 'interactive', caller, signal: waiting, credential: authorization ? 'theirs' : 'ours' },
      async (revision) => {
        const sent = { sentAt: clock.now(), asOf: revision - 1 };
        const answer = await http.request({
          method,
          url: `${withoutEnd(baseUrl, '/')}${path}${query}`,
          headers: {
            [version]: API_VERSION,
            ...headers,
            authorization: authorization ?? `Bearer ${apiKey()}`,
          },
          body,
          signal: cut,
          largestAnswer: LARGEST_PASSED,
          room,
          target: 'workspace',
        });
        return { ...(authorization ? answer : await withoutKey(answer, apiKey())), ...sent };
      },
    );
}

/** Name of the header with the version of the API, in lower case. @param api overrides of the contract, as the configuration holds them */
export function versionHeaderOf(api: unknown): string {
  return (apiOverrides.parse(api ?? {}).versionHeader ?? VERSION_HEADER).toLowerCase();
}

/** A client over any way of sending, with the names that this workspace's configuration overrides. */
export function clientOver<Context>(
  send: Send<Context>,
  { workspaceId, api }: Pick<DoorOptions, 'workspaceId' | 'api'>,
) {
  return createWorkspaceClient<Context>({ send, workspaceId, api: apiOverrides.parse(api ?? {}) });
}

function transportOf({ http, baseUrl, apiKey, api }: DoorOptions) {
  return createSend({ http, baseUrl, apiKey, api: apiOverrides.parse(api ?? {}) });
}

function hint(seconds: string | undefined): number | undefined {
  return seconds !== undefined && /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1_000 : undefined;
}
