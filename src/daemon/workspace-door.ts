import type { HttpClient } from '../http/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Lane } from '../model/lane.ts';
import type { SendContext } from '../outbox/door.ts';
import type { Slot, Throttle } from '../throttle/throttle.ts';
import { createWorkspaceClient, type Send, type WorkspaceClient } from '../workspace/client.ts';
import { type ApiOverrides, apiOverrides } from '../workspace/contract.ts';
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
  const { send, client } = build(options);
  return client<SendContext>((request) => send(request, { signal: options.cut }));
}

/** How a request without a row in the outbox asks for its slot. */
export interface DirectContext {
  readonly lane: Lane;
  readonly signal?: AbortSignal;
}

/**
 * The client for everything else, for example commands: it takes its own slot, records it, and only then sends. There
 * is no client that goes around the throttle.
 */
export function directClient(
  options: DoorOptions,
  throttle: Throttle,
  clock: Clock,
  commit: (record: Slot['record']) => Promise<void>,
): WorkspaceClient<DirectContext> {
  const { send, client } = build(options);
  return client<DirectContext>(async (request, { lane, signal }) => {
    const slot = await throttle.acquire({ lane, due: clock.now(), signal });
    try {
      await commit((query) => slot.record(query));
    } catch (error) {
      slot.release();
      throw error;
    }
    try {
      const answer = await send(request, { signal: signal ?? options.cut });
      await slot.complete({ status: answer.status, retryAfter: hint(answer.headers['retry-after']) });
      return answer;
    } catch (error) {
      await slot.complete(undefined);
      throw error;
    }
  });
}

function build({ http, baseUrl, workspaceId, apiKey, api }: DoorOptions) {
  const overrides: ApiOverrides = apiOverrides.parse(api ?? {});
  return {
    send: createSend({ http, baseUrl, apiKey, api: overrides }),
    client: <Context>(send: Send<Context>) => createWorkspaceClient<Context>({ send, workspaceId, api: overrides }),
  };
}

function hint(seconds: string | undefined): number | undefined {
  return seconds !== undefined && /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1_000 : undefined;
}
