import { z } from 'zod';
import type { Connection, Connector, LinkedStatus } from '../../../src/connectors/connector.ts';
import { outOfScope } from '../../../src/connectors/kit/items.ts';
import { SyncError } from '../../../src/model/errors.ts';
import {
  type Grammar,
  type Item,
  type ItemReference,
  type PullRequest,
  pullRequestKey,
  type WorkItem,
  workItemKey,
} from '../../../src/model/item.ts';
import { type PostedComment, plainComment } from '../../../src/model/notice.ts';

export interface Tracker {
  readonly connector: Connector<unknown>;
  /** Item key → marker → text. */
  readonly comments: Map<string, Map<string, string>>;
  readonly closed: string[];
  readonly statuses: LinkedStatus[];
  readonly writes: string[];
  readonly fetches: string[];
  /** Thrown by the next writes, one each: what is a promise, once that is fulfilled. */
  readonly failures: (SyncError | Promise<SyncError>)[];
  /** So many writes from now on get no answer, and are not carried out. */
  unanswered: number;
}

const SECRET = 'x-tracker-secret';
const GRAMMAR: Grammar = {
  closing: ['fixes'],
  mentioning: ['refs'],
  suppressing: ['skip'],
  closes: 'list',
  names: ['key'],
  addresses: [['//{host}/issues/{key}', '//{host}/board/{number}?issue={key}']],
};

/** A tracker whose webhooks are items as they are, or comments on them; each connection of it has the host of its option. */
export function createTracker(id = 'tracker'): Tracker {
  const comments: Tracker['comments'] = new Map();
  const closed: string[] = [];
  const statuses: LinkedStatus[] = [];
  const writes: string[] = [];
  const fetches: string[] = [];
  const failures: Tracker['failures'] = [];
  const write = async (what: string, signal: AbortSignal) => {
    const failure = await failures.shift();
    if (failure) throw failure;
    if (tracker.unanswered > 0) {
      tracker.unanswered--;
      await new Promise((_, reject) => signal.addEventListener('abort', reject));
    }
    writes.push(what);
  };
  const connection: Connection = {
    units: async () => [],
    poll: async () => ({ outcome: 'unchanged' }),
    fetch: async ({ key }) => {
      fetches.push(key);
      throw new SyncError('not_found', 'this tracker is told, and never asked');
    },
    check: async () => [],
    async comment({ key }, { marker, text, isCorrection }, signal) {
      if (isCorrection && !comments.get(key)?.has(marker)) return undefined;
      await write(`comment ${key}`, signal);
      comments.set(key, (comments.get(key) ?? new Map<string, string>()).set(marker, text));
      return { id: '1', author: 'worksync', text: plainComment(`${text} ${marker}`) };
    },
    status: {
      right: 'the right to write statuses',
      async write({ key }, status, signal) {
        await write(`status ${key}`, signal);
        statuses.push(status);
      },
    },
    async close({ key }, signal) {
      await write(`close ${key}`, signal);
      if (!closed.includes(key)) closed.push(key);
    },
  };
  const connector: Connector<unknown> = {
    id,
    title: 'Tracker',
    publicHost: 'tracker.example',
    capabilities: { namesDeliveries: true, workItems: true },
    grammar: GRAMMAR,
    largestDelivery: 1_000_000,
    options: z.strictObject({}),
    host: () => 'tracker.example',
    async verify({ headers }, secrets) {
      if (!secrets.includes(String(headers[SECRET]))) throw new SyncError('signature_mismatch', 'not ours');
      return { event: 'item', deliveryId: String(headers['x-tracker-delivery']) };
    },
    translate: ({ body }) => {
      const { comment, ...item } = JSON.parse(Buffer.from(body).toString()) as Item & { comment?: PostedComment };
      if (item.kind === 'work_item' && item.movedAway) return outOfScope('project', item);
      return comment
        ? { outcome: 'references', references: [reference(item)], comment }
        : { outcome: 'items', items: [item] };
    },
    reference,
    connect: () => connection,
  };
  const tracker: Tracker = { connector, comments, closed, statuses, writes, fetches, failures, unanswered: 0 };
  return tracker;
}

function reference({ kind, key }: Item): ItemReference {
  return { kind, key, locator: {} };
}

export function issue(number: number, fields: Partial<WorkItem> = {}): WorkItem {
  return {
    kind: 'work_item',
    key: workItemKey('tracker', 'tracker.example', String(1_000 + number)),
    connector: 'tracker',
    host: 'tracker.example',
    containerId: '7',
    containerName: 'Engine',
    identifier: `ENG-${number}`,
    updatedAt: Date.UTC(2026, 0, 6),
    url: `https://tracker.example/issues/ENG-${number}`,
    title: `Issue ${number}`,
    state: 'open',
    rawState: 'Todo',
    ...fields,
  };
}

export function pullRequest(number: number, fields: Partial<PullRequest> = {}): PullRequest {
  return {
    kind: 'pull_request',
    key: pullRequestKey('tracker', 'tracker.example', '7', String(number)),
    connector: 'tracker',
    host: 'tracker.example',
    repoId: '7',
    repoName: 'acme/app',
    identifier: String(number),
    updatedAt: Date.UTC(2026, 0, 6),
    url: `https://tracker.example/acme/app/pull/${number}`,
    title: `Change ${number}`,
    state: 'open',
    headBranch: 'feature',
    baseBranch: 'main',
    headSha: '1'.repeat(40),
    ...fields,
  };
}

let deliveries = 0;

/** Posts an item as the tracker's webhook, or a comment on it. @returns the status */
export async function tell(
  address: string,
  item: Item & { readonly comment?: PostedComment },
  { secret = '', id = `tracker-${++deliveries}` } = {},
) {
  const answer = await fetch(`${address}/webhooks/test/tracker`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', [SECRET]: secret, 'x-tracker-delivery': id },
    body: JSON.stringify(item),
  });
  await answer.arrayBuffer();
  return answer.status;
}
