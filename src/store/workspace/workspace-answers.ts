import type { Action } from '../../model/change.ts';
import type { ListPage } from '../../model/delivery.ts';
import { currentRevision } from '../changes/revision.ts';
import { appendDeliveries } from '../deliveries/append-deliveries.ts';
import type { Scope } from '../workspace-scope.ts';

/**
 * Answers to requests of commands and of the gateway, and events of the workspace:
 *
 * - `saw-record-edit` may have reached the provider first.
 * - `look-again` follows the action of a person on an item, whose known state is changed already.
 * - `compare-records` is a step of a sweep.
 * - `evaluate-records` is a step of the comparison after the route for records opened.
 * - `named` lists resources that an event names without their content.
 */
type Observation =
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
 * An answer of the workspace, stored as a delivery. It was true at some time between `sentAt` and its receipt.
 *
 * Two stages read an answer to the outbox. Settle stores what worksync sent: it becomes the known state, and a link becomes one of
 * worksync. From the body it reads only the position in a list, whether the server recognised a repeated link, and the time of a
 * document. Reconcile stores what the server added: ids of links, tasks, the server's spelling of a record, everything that was read.
 */
export interface Answer {
  readonly action: Action | Observation;
  readonly entity: string;
  readonly sentAt: number;
  /** When the difference arose that the request was sent for, epoch milliseconds. Absent if there was no request. */
  readonly wantedAt?: number;
  /** The answer does not override a state that became known at a later revision; see `revision.ts`. Absent for an event. */
  readonly asOf?: number;
  /**
   * The revision at the receipt. The answer may wait in the inbox while newer requests are answered, and must not count as newer
   * than their answers. Absent if `asOf` is.
   */
  readonly receivedRevision?: number;
  readonly body: unknown;
  /** The HTTP status; absent if the answer was not received over HTTP. */
  readonly status?: number;
  /** The cursor of a page of a list; absent on the first page. */
  readonly cursor?: string;
  /** The page of a list that worksync reads itself. */
  readonly page?: ListPage;
  /** The id of the workspace, if the answer contained it. */
  readonly workspaceId?: string;
  /** The id of the API key that caused an event. Absent if a user did, or if the event does not contain it. */
  readonly key?: string;
}

/** The name of the connection of the workspace's own answers and webhooks in the inbox. */
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
