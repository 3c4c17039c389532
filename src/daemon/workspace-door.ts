import type { HttpClient } from '../http/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Lane } from '../model/lane.ts';
import type { SendContext } from '../outbox/door.ts';
import type { Slot, Throttle } from '../throttle/throttle.ts';
import { type ApiResponse, createWorkspaceClient, type Send, type WorkspaceClient } from '../workspace/client.ts';
import { apiOverrides } from '../workspace/contract.ts';
import { createSend } from '../workspace/transport.ts';

export interface DoorOptions {
  readonly http: HttpClient;
  readonly baseUrl: string;
  readonly workspaceId: string;
  readonly apiKey: () => string;
  /** Overrides of the contract, as the configuration holds them. */
  readonly api: unknown;
  /** Aborted when the process must end without waiting for answers. */
  readonly cut: AbortSignal;
}

/** The client of the outbox: each request brings the slot that its transaction recorded. */
export function outboxClient(options: DoorOptions): WorkspaceClient<SendContext> {
  const send = transportOf(options);
  return clientOver<SendContext>((request) => send(request, { signal: options.cut }), options);
}

/** How a request without a row in the outbox asks for its slot. */
export interface DirectContext {
  readonly lane: Lane;
  readonly signal?: AbortSignal;
}

/** What records a slot durably before its request is sent. */
type Commit = (record: Slot['record']) => Promise<void>;

/**
 * How everything else sends, for example commands: each request takes its own slot and records it, and only then goes
 * out. There is no way around the throttle.
 */
export function directSend(
  options: DoorOptions,
  throttle: Throttle,
  clock: Clock,
  commit: Commit,
): Send<DirectContext> {
  const send = transportOf(options);
  return async (request, { lane, signal }) => {
    const slot = await throttle.acquire({ lane, due: clock.now(), signal });
    try {
      await commit((query) => slot.record(query));
    } catch (error) {
      slot.release();
      throw error;
    }
    let answer: ApiResponse | undefined;
    try {
      answer = await send(request, { signal: signal ?? options.cut });
      return answer;
    } finally {
      await slot.complete(answer && { status: answer.status, retryAfter: hint(answer.headers['retry-after']) });
    }
  };
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
