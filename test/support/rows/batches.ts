import type { Translation } from '../../../src/connectors/connector.ts';
import type { DeliveryOrigin } from '../../../src/model/delivery.ts';
import type { Item } from '../../../src/model/item.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import type { Answer } from '../../../src/store/workspace/workspace-reads.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { applyBatch } from '../../../src/sync/reconcile/apply-batch.ts';
import {
  type BatchContext,
  createKeyHorizon,
  createRules,
  type ReconcileConnection,
} from '../../../src/sync/reconcile/context.ts';
import { PLAIN_GRAMMAR } from '../../../src/sync/reconcile/link-rules/scan.ts';
import type { Translated } from '../../../src/sync/reconcile/translate-deliveries.ts';

/** Deliveries that are translated already, for batches of reconcile over a real database. */

export const START = Date.UTC(2026, 0, 5, 9);

const CODE = sourceOf('code', 'github');
export const TRACKER = sourceOf('tracker', 'jira');

export const SOURCES = new Map([CODE, TRACKER].map((source) => [source.name, source]));

export const RULES = createRules({
  ...{ trailers: ['Task'], links: [], users: {}, grammars: [], documents: true },
  addresses: ['https://app.example.com/workspace'],
  triage: [{ when: { type: ['Bug'] }, create: 'bug', title: '{title}', labels: [], since: 0 }],
});

const NO_LIMITS = { removals: 1e9, creations: 1e9, repairs: 1e9, statuses: 1e9 };

function sourceOf(connection: string, connector: string): ReconcileConnection {
  return {
    name: connection,
    connector: { id: connector, publicHost: 'github.com', capabilities: { pullRequests: true } },
    records: true,
    grammar: PLAIN_GRAMMAR,
    writeBack: { comment: true, close: true, status: true },
    translate: () => ({ outcome: 'ignored', reason: 'translated already' }),
    reference: ({ kind, key }) => ({ kind, key, locator: {} }),
  };
}

export function batchContext(now: number, own: Partial<BatchContext> = {}): BatchContext {
  const keyHorizon = createKeyHorizon([]);
  const liveStatuses = new Map();
  return { now, usedShare: 0, sources: SOURCES, rules: RULES, keyHorizon, liveStatuses, logger: silentLogger, ...own };
}

export async function takeBatch(
  query: Scope,
  batch: readonly Translated[],
  seconds: number,
  again: readonly string[] = [],
): Promise<void> {
  await applyBatch(query, batch, batchContext(START + seconds * 1_000, { guard: NO_LIMITS }), {
    items: again,
    tasks: [],
  });
}

export function said(
  source: ReconcileConnection,
  translation: Translation,
  by: DeliveryOrigin = 'webhook',
): Translated {
  return { delivery: deliveryOf(source.name, by), connection: source, translation };
}

export function saidOf(item: Item, by: DeliveryOrigin = 'webhook'): Translated {
  return said(item.kind === 'pull_request' ? CODE : TRACKER, { outcome: 'items', items: [item] }, by);
}

export function answered(
  action: Answer['action'],
  body: unknown,
  {
    entity = '',
    seconds = 0,
    answer: more,
  }: { readonly entity?: string; readonly seconds?: number; readonly answer?: Partial<Answer> } = {},
): Translated {
  const answer = { action, entity, sentAt: START + seconds * 1_000, body, ...more };
  return { delivery: deliveryOf('workspace', 'answer'), answer };
}

function deliveryOf(connection: string, source: DeliveryOrigin): Translated['delivery'] {
  const stored = { body: Buffer.alloc(0), unpacked_length: null };
  return {
    ...{ id: 1, connection, source, event: 'event', body: stored.body, receivedAt: START },
    ...{ attempts: 0, bytes: 0, stored },
  };
}
