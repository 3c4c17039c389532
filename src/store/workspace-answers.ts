import type { Action } from '../model/change.ts';
import type { ListPage } from '../model/delivery.ts';
import { appendDeliveries } from './append-deliveries.ts';
import { currentRevision } from './revision.ts';
import type { Scope } from './workspace-scope.ts';

/**
 * Requests of others through commands or the gateway, and reports of the workspace itself. `saw-record-edit` may have gone to
 * the provider first. `look-again` follows a person's action on the item that is the entity: its known state has been changed
 * already. `compare-records` is a step of a sweep, `evaluate-records` one of the comparison after the route for records opened.
 * `named` lists resources that an event names without carrying them.
 */
type Sighting =
  | 'saw-task'
  | 'saw-tasks'
  | 'saw-record'
  | 'saw-record-edit'
  | 'saw-records'
  | 'saw-link'
  | 'saw-link-removed'
  | 'saw-documents'
  | 'named'
  | 'compare-records'
  | 'evaluate-records'
  | 'look-again';

/**
 * An answer of the workspace as a delivery: whatever is read becomes one, and only reconcile interprets it.
 * It was true at some moment between `sentAt` and its receipt.
 */
export interface Answer {
  readonly action: Action | Sighting;
  readonly entity: string;
  readonly sentAt: number;
  /** What became known at a later revision, this answer does not override; see `revision.ts`. Absent: of an event. */
  readonly asOf?: number;
  /**
   * The revision at its receipt. The answer may wait in the inbox while newer requests are answered, and what it says must not
   * count as newer than theirs. Absent where `asOf` is.
   */
  readonly receivedRevision?: number;
  readonly body: unknown;
  /** The HTTP status; absent where the answer did not come over HTTP. */
  readonly status?: number;
  /** Of a list: which page it is; absent on the first one. */
  readonly cursor?: string;
  /** Of a list that worksync reads itself. */
  readonly page?: ListPage;
  /** Where the workspace told its id beside it. */
  readonly workspaceId?: string;
}

/** Name of the connection that the workspace's own answers and webhooks have in the inbox. */
export const WORKSPACE = 'workspace';

export async function appendAnswer(query: Scope, answer: Answer, id: string, receivedAt: number): Promise<void> {
  const received = answer.asOf === undefined ? {} : { receivedRevision: await currentRevision(query) };
  const body = Buffer.from(JSON.stringify({ ...answer, ...received }));
  const delivery = {
    connection: WORKSPACE,
    key: `answer:${id}`,
    source: 'answer',
    event: answer.action,
    body,
  } as const;
  await appendDeliveries(query, [delivery], receivedAt);
}

export function readAnswer(body: Uint8Array): Answer {
  return JSON.parse(Buffer.from(body).toString()) as Answer;
}
