import { entity } from '../../model/change.ts';
import { asSyncError, type SyncError, wasSent } from '../../model/errors/sync-error.ts';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { isSafe, isSuccess } from '../../platform/http/semantics.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Random } from '../../platform/lib/random.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { LARGE } from '../../platform/lib/yield.ts';
import type { Store } from '../../store/database.ts';
import { existingEntities } from '../../store/entities.ts';
import { appendAnswer } from '../../store/workspace-answers.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { readBody } from '../answer.ts';
import { ROUTES, type Route, type RouteName } from '../contract.ts';
import type { ReadLarge } from '../large-answers.ts';
import { type CapturedDelivery, deliveryFromResponse } from './delivery-from-response.ts';
import { enqueueReadsAfter } from './reads-after-write.ts';
import type { RouteOf } from './route-of.ts';

/** A request of a command, or of a caller of the gateway, that worksync sent to the workspace. */
export interface Asked {
  readonly method: string;
  /** Below the base address; starts with `/`. */
  readonly path: string;
  /** Encoded, without `?`; empty if there is none. */
  readonly query: string;
  /** The sent body: bytes, or a plain JSON value. */
  readonly body?: unknown;
}

export interface Heard {
  readonly status: number;
  readonly body: Buffer;
  /** The time when the request was sent, epoch milliseconds. */
  readonly sentAt: number;
  /** The revision as of which the answer is true; see `store/revision.ts`. */
  readonly asOf: number;
}

/**
 * The one path for answers of the workspace to commands and the gateway. An answer enters the inbox like any delivery, as the
 * outbox's own answers and the workspace's webhooks do, and only reconcile reads it. If the outcome of a write is unknown,
 * worksync reads the resource that it may have changed. Never rejects: the caller gets the answer even if it cannot be stored.
 */
export interface ResponseCapture {
  /** Captures an answer that is certainly this workspace's. */
  answered(asked: Asked, heard: Heard): Promise<void>;
  /** Records a failed request; if it may have been carried out, worksync reads its result. */
  failed(asked: Asked, error: SyncError): Promise<void>;
  /** Records an answer that may be another workspace's, and so proves nothing. */
  unproved(asked: Asked, status: number): Promise<void>;
}

export interface LearnDeps {
  readonly store: Store;
  readonly routeOf: RouteOf;
  readonly readLarge: ReadLarge;
  /** Notified when a delivery was appended to the inbox or a read was requested. */
  readonly inbox: WakeSignal;
  readonly outbox: WakeSignal;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

export function createResponseCapture(deps: LearnDeps): ResponseCapture {
  const { store, routeOf, clock } = deps;

  async function readAgain(asked: Asked): Promise<void> {
    const matched = isSafe(asked.method) ? undefined : routeOf(asked.method, asked.path);
    if (!matched) return;
    const now = clock.now();
    const isWished = await store.commit((transaction) =>
      enqueueReadsAfter(transaction, matched, contentOf(asked.body), now),
    );
    if (isWished) deps.outbox.notify();
  }

  async function take(asked: Asked, { body, sentAt, asOf }: Heard): Promise<void> {
    const matched = routeOf(asked.method, asked.path);
    if (!matched) return;
    const content = await contentHeard(matched.route, body);
    const news = await ofInterest(store.query, deliveryFromResponse(matched, asked.query, content));
    if (!news) return;
    await appendAnswer(store.query, { ...news, sentAt, asOf }, deps.random.uuid(), clock.now());
    deps.inbox.notify();
  }

  /** Throws `answer_malformed`. */
  async function contentHeard(route: RouteName, body: Buffer): Promise<unknown> {
    const contract: Route = ROUTES[route];
    if (contract.response === undefined || body.length === 0) return undefined;
    if (body.length <= LARGE) return readBody(contract, body);
    // A copy, because the caller gets the same bytes.
    return deps.readLarge(route, Buffer.from(body));
  }

  async function quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      deps.logger.error({ error: asSyncError(error) }, 'an answer of the workspace could not be stored');
    }
  }

  return {
    answered: (asked, heard) =>
      quietly(async () => {
        if (isSuccess(heard.status)) await take(asked, heard);
        else if (mayHaveActed(heard.status)) await readAgain(asked);
      }),
    unproved: (asked, status) =>
      quietly(async () => {
        if (isSuccess(status) || mayHaveActed(status)) await readAgain(asked);
      }),
    failed: (asked, error) =>
      quietly(async () => {
        if (!wasNotSent(error)) await readAgain(asked);
      }),
  };
}

/** A failure of the server does not show what it did before. */
function mayHaveActed(status: number): boolean {
  return status >= 500;
}

/** Whether the request certainly never left. */
export function wasNotSent(error: SyncError): boolean {
  return !wasSent(error) || error.code === 'aborted';
}

/** Keeps only documents that were attached here. */
async function ofInterest(query: Scope, news: CapturedDelivery | undefined): Promise<CapturedDelivery | undefined> {
  if (news?.action !== 'saw-documents') return news;
  const { documents } = news.body as { documents: readonly { documentId: string }[] };
  const held = await existingEntities(
    query,
    documents.map(({ documentId }) => entity.document(documentId)),
  );
  const followed = documents.filter(({ documentId }) => held.has(entity.document(documentId)));
  return followed.length === 0 ? undefined : { ...news, body: { documents: followed } };
}

/** Returns the JSON of a body; undefined if it has none. */
function contentOf(body: unknown): unknown {
  if (!Buffer.isBuffer(body)) return body;
  try {
    return body.length === 0 ? undefined : parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}
