import type { DirectContext } from '../admin/open-workspace.ts';
import { LARGEST_PASSED } from '../gateway/outgoing.ts';
import type { Upstream } from '../gateway/upstream.ts';
import { CALLERS } from '../model/caller.ts';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import type { HttpAnswer, HttpClient } from '../platform/http/http-client.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { duration } from '../platform/lib/quantities.ts';
import { withoutEnd } from '../platform/lib/text.ts';
import { yieldForRequests } from '../platform/lib/yield.ts';
import { createScrubber } from '../platform/observe/scrubber.ts';
import { nextRevision } from '../store/changes/revision.ts';
import type { SlotAnswer } from '../sync/quota/cooldown.ts';
import type { Slot } from '../sync/quota/slot.ts';
import type { Throttle } from '../sync/quota/throttle.ts';
import { type Converter, readLargeBy } from '../sync/worker/converter.ts';
import type { WorkspaceContext } from '../sync/workspace-context.ts';
import { keyRemedy } from '../workspace-api/answer.ts';
import { createResponseCapture, createRouteOf, type ResponseCapture } from '../workspace-api/capture-responses.ts';
import { API_VERSION, type ApiOverrides, apiOverrides, VERSION_HEADER } from '../workspace-api/contract.ts';
import type { Send } from '../workspace-api/exchange.ts';
import {
  createSend,
  createWorkspaceClient,
  type SendContext,
  type TransportOptions,
} from '../workspace-api/typed-client.ts';
import type { WorkspaceAddress } from './daemon-context.ts';

export type WorkspaceApi = ReturnType<typeof openWorkspaceApi>;

/** Opens all ways in which a partition sends requests to its workspace. All of them use slots of the one throttle. */
export function openWorkspaceApi(
  context: Omit<WorkspaceContext, 'client'>,
  address: WorkspaceAddress,
  http: HttpClient,
  lost: AbortSignal | undefined,
  converter: Converter,
) {
  const { config } = context;
  const api = apiOverrides.parse(config.workspace.api ?? {});
  const readLarge = readLargeBy(converter);
  const cut = new AbortController();
  const endpoint: TransportOptions = {
    ...address,
    http,
    api,
    // Aborted when the lease is lost, or when the stop takes too long.
    cut: lost ? AbortSignal.any([cut.signal, lost]) : cut.signal,
  };
  const exchange = createSend(endpoint);
  const capture = createResponseCapture(context, createRouteOf(api), readLarge);
  const withSlot = createWithSlot(context);
  const send = directSend(exchange, withSlot, context, capture);
  const names = { workspaceId: config.workspace.id, api };
  return {
    /** Sends for commands and pages. */
    send,
    client: createWorkspaceClient({ ...names, send }),
    /** Sends without a slot of its own: the transaction that claimed the change has recorded one. */
    outboxClient: createWorkspaceClient({ ...names, send: exchange, readLarge }),
    /** Sends for callers of the gateway. */
    pass: gatewaySend(endpoint, withSlot, context.clock),
    /** Stores answers as deliveries. */
    capture,
    /** Aborts the requests in flight. */
    cut: () => cut.abort(),
  };
}

/** Sends for commands and pages. Captures the answers, because they are deliveries too, and reports each write, also a failed one. */
function directSend(
  exchange: Send<SendContext>,
  withSlot: WithSlot,
  { clock, onWrite }: Pick<WorkspaceContext, 'clock' | 'onWrite'>,
  capture: ResponseCapture,
): Send<DirectContext> {
  return async (request, context) => {
    const sent = { query: '', ...request };
    let sentAt: number | undefined;
    let asOf = 0;
    try {
      const answer = await withSlot({ ...context, credential: 'ours' }, (revision) => {
        sentAt = clock.now();
        asOf = revision - 1;
        return exchange(request, {});
      });
      await capture.answered(sent, { ...answer, sentAt: sentAt ?? clock.now(), asOf });
      return answer;
    } catch (error) {
      if (sentAt !== undefined) await capture.failed(sent, asSyncError(error));
      throw error;
    } finally {
      if (request.method !== 'GET') onWrite();
    }
  };
}

/** Sends a request as the caller of the gateway wrote it: with the caller's credential or, for a gateway token, with ours. */
export function gatewaySend(endpoint: TransportOptions, withSlot: WithSlot, clock: Clock): Upstream['pass'] {
  const { http, baseUrl, apiKey, api, cut } = endpoint;
  const versionHeader = versionHeaderIn(api ?? {});
  return ({ method, path, query, headers, body, room, authorization, caller }, waiting) =>
    withSlot(
      { lane: 'interactive', caller, signal: waiting, credential: authorization ? 'theirs' : 'ours' },
      async (revision) => {
        const sent = { sentAt: clock.now(), asOf: revision - 1 };
        const answer = await http.request({
          method,
          url: `${withoutEnd(baseUrl, '/')}${path}${query}`,
          headers: {
            [versionHeader]: API_VERSION,
            ...headers,
            authorization: authorization ?? `Bearer ${apiKey()}`,
          },
          body,
          signal: cut,
          largestAnswer: LARGEST_PASSED,
          room,
          target: 'workspace',
        });
        return { ...(authorization ? answer : await redactKey(answer, apiKey())), ...sent };
      },
    );
}

/** Returns the name of the version header in lower case. @param api the overrides as configured, not parsed yet */
export function versionHeaderOf(api: unknown): string {
  return versionHeaderIn(apiOverrides.parse(api ?? {}));
}

function versionHeaderIn({ versionHeader = VERSION_HEADER }: ApiOverrides): string {
  return versionHeader.toLowerCase();
}

type Answered = { readonly status: number; readonly headers: Readonly<Record<string, string>> };
type WithSlot = ReturnType<typeof createWithSlot>;

/**
 * Creates the way in which commands, pages and the gateway send one request under a slot of its own, which is recorded before the
 * request and completed after the answer. `signal` and `patience` end the wait for a slot. If the wait is known to exceed `patience`,
 * it throws at once `rate_limited`, or the reason of the pause, with `retryAfter`. `exchange` gets the revision of the request.
 */
function createWithSlot({ throttle, clock, store }: Pick<WorkspaceContext, 'throttle' | 'clock' | 'store'>) {
  const recordSlot = (slot: Slot): Promise<number> =>
    store.commit(async (transaction) => {
      await slot.record(transaction);
      return nextRevision(transaction);
    });
  return async <Answer extends Answered>(
    { credential, ...context }: DirectContext & { readonly credential: 'ours' | 'theirs' },
    exchange: (revision: number) => Promise<Answer>,
  ): Promise<Answer> => {
    const slot = await acquireSlot(throttle, clock, context);
    let revision: number;
    try {
      revision = await recordSlot(slot);
    } catch (error) {
      slot.release();
      throw error;
    }
    let end: SlotAnswer | undefined;
    try {
      const answer = await exchange(revision);
      const key = credential === 'ours' ? keyStateOf(answer.status) : undefined;
      end = { status: answer.status, retryAfter: millisecondsOf(answer.headers['retry-after']), key };
      return answer;
    } finally {
      await slot.complete(end);
    }
  };
}

async function acquireSlot(
  throttle: Throttle,
  clock: Clock,
  { patience = Number.POSITIVE_INFINITY, lane, caller = CALLERS.command, signal }: DirectContext,
): Promise<Slot> {
  const due = clock.now();
  if (patience === Number.POSITIVE_INFINITY) return throttle.acquire({ lane, caller, due, signal });
  if (throttle.snapshot().nextForPeopleAt - due > patience) throw noSlotError(throttle, clock);
  const timeout = new AbortController();
  const cancel = clock.after(patience, () => timeout.abort());
  const ended = signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal;
  try {
    return await throttle.acquire({ lane, caller, due, signal: ended });
  } catch (error) {
    throw timeout.signal.aborted && !signal?.aborted ? noSlotError(throttle, clock) : error;
  } finally {
    cancel();
  }
}

/** Returns the error that explains why no interactive request is sent now, and when one can be. */
function noSlotError(throttle: Throttle, clock: Clock): SyncError {
  const { paused, nextForPeopleAt } = throttle.snapshot();
  const retryAfter = Math.max(0, nextForPeopleAt - clock.now());
  const full =
    retryAfter > 0 ? 'the request quota of the workspace is used up' : 'the most requests allowed are in flight';
  const message = paused
    ? `nothing is sent to the workspace for ${duration(retryAfter)}: ${paused.reason}`
    : `${full}; the next one can go in ${duration(retryAfter)}`;
  const code = paused?.code ?? 'rate_limited';
  return new SyncError(code, message, { retryAfter, hint: keyRemedy(code) });
}

/** Returns what an answer proves about the daemon's key. A 403 proves nothing: a permission for one route may be missing. */
function keyStateOf(status: number): SlotAnswer['key'] {
  if (status === 401) return { code: 'unauthorized', reason: 'the workspace refused the key' };
  return status < 500 && status !== 403 ? null : undefined;
}

function millisecondsOf(retryAfterSeconds: string | undefined): number | undefined {
  if (retryAfterSeconds === undefined || !/^\d{1,6}$/.test(retryAfterSeconds)) return undefined;
  return Number(retryAfterSeconds) * 1_000;
}

/** Bytes that are searched for the key at once: about ten milliseconds. */
const CHUNK = 1_048_576;
/** No encoded form of a key is longer, characters. */
const LONGEST_FORM = 16_384;

/**
 * Removes the daemon's key from an answer, in every encoding. The workspace may repeat the request in its answer, and a caller with
 * a gateway token must not learn the key that the token stands for.
 */
async function redactKey(answer: HttpAnswer, key: string): Promise<HttpAnswer> {
  const { scrub } = createScrubber([key]);
  const headers = Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name, scrub(value)]));
  return { ...answer, headers, body: await redactBody(answer.body, scrub) };
}

/** Reads the bytes as Latin-1, so that bytes that are not text stay unchanged. */
async function redactBody(body: Buffer, scrub: (text: string) => string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let isClean = true;
  for (let from = 0; from < body.length; ) {
    if (from > 0) await yieldForRequests();
    const to = endOfChunk(body, from, scrub);
    const text = body.toString('latin1', from, to);
    const clean = scrub(text);
    isClean &&= clean === text;
    chunks.push(clean === text ? body.subarray(from, to) : Buffer.from(clean, 'latin1'));
    from = to;
  }
  return isClean ? body : Buffer.concat(chunks);
}

/** Returns the first possible end of a chunk that no occurrence of the key crosses. */
function endOfChunk(body: Buffer, from: number, scrub: (text: string) => string): number {
  for (let end = from + CHUNK; end < body.length; end += LONGEST_FORM) {
    const before = body.toString('latin1', end - LONGEST_FORM, end);
    const after = body.toString('latin1', end, end + LONGEST_FORM);
    if (scrub(before + after) === scrub(before) + scrub(after)) return end;
  }
  return body.length;
}
