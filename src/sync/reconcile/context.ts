import type { Capabilities, Translation } from '../../connectors/connector.ts';
import type { Delivery } from '../../model/delivery.ts';
import type { Grammar, Item, ItemReference } from '../../model/item.ts';
import type { TaskStatuses } from '../../model/task-status.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import type { Logger } from '../../platform/lib/telemetry.ts';
import type { WaitingDelivery } from '../../store/changes/outbox-rows.ts';
import type { StoredBody, Webhook } from '../../store/deliveries/inbox.ts';
import type { Answer } from '../../store/workspace/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { createLinkRules, type LinkRules, type LinkRulesInput } from './link-rules/link-rules.ts';
import { createIsUser, createTriage, type Triage, type TriageInput } from './triage.ts';
import { createIsTrusted, createWorkflow, type Workflow, type WorkflowInput } from './workflow/workflow-rules.ts';

/** The facts about a connector that reconcile uses. */
export interface ConnectorFacts {
  readonly id: string;
  readonly publicHost: string;
  readonly capabilities: Capabilities;
}

/** One connection as reconcile needs it: only pure functions. */
export interface ReconcileConnection {
  readonly name: string;
  readonly connector: ConnectorFacts;
  /** Whether its pull requests are recorded in the workspace, if the workspace has a route for records. */
  readonly records: boolean;
  /** How people name its items. */
  readonly grammar?: Grammar;
  /** The kinds of text that worksync writes to the vendor. Absent: none. */
  readonly writeBack?: {
    readonly comment: boolean;
    readonly close: boolean;
    readonly status: boolean | 'require';
  };
  /** Whether its fetches return messages of commits, which no delivery carries. */
  readonly fetchesCommits?: boolean;
  translate(delivery: Delivery): Translation;
  /** Translates large and suspected bodies. Absent: all bodies are translated on the main thread. */
  readonly worker?: WorkerTranslator;
  reference(item: Item): ItemReference;
  /** Whether the item is in the scope of the connection. */
  covers?(item: Item): boolean;
  /** Translates old deliveries for people who inspect them, without an update of the known names. */
  readonly inspection?: Pick<ReconcileConnection, 'translate' | 'worker'>;
}

/**
 * Translates bodies off the main thread, within a budget of time and memory. Throws the errors of the translation, and
 * `over_budget`.
 */
export interface WorkerTranslator {
  translate(delivery: Pick<Delivery, 'source' | 'event'> & { readonly stored: StoredBody }): Promise<Translation>;
  /** Returns each element of a page as a page of its own; an empty list if the body is no page. */
  elements(stored: StoredBody): Promise<readonly PageElement[]>;
}

export interface PageElement {
  readonly body: Uint8Array;
  /** SHA-256 of the element, hexadecimal. */
  readonly content: string;
}

/** The configured connections by name. */
export type ReconcileConnections = ReadonlyMap<string, ReconcileConnection>;

/** The rules of one workspace, compiled. */
export interface Rules {
  readonly links: LinkRules;
  readonly triage: Triage;
  /** How the states of items change the states of their tasks. */
  readonly workflow: Workflow;
  /** Whether the author of an item is trusted. Applies the rules for task states, even if none are configured. */
  isTrusted(item: Item, connection: string): boolean;
  /** The statuses of the workspace. */
  readonly statuses: TaskStatuses;
  /** Whether documents that an item names are attached to its task. */
  readonly documents: boolean;
  /** Identifies the rules: open items are re-evaluated when it changes. Absent: they never are. */
  readonly digest?: string;
}

export interface RulesInput extends LinkRulesInput, TriageInput {
  /** Absent: the states of tasks are left to people. */
  readonly workflow?: WorkflowInput | undefined;
  /** The names of the configured connections. Absent: the items of all connections count. */
  readonly connections?: ReadonlySet<string>;
  /** The statuses of the workspace. Absent: those of the specification. */
  readonly statuses?: TaskStatuses | undefined;
  readonly documents: boolean;
  readonly digest?: string;
}

export function createRules(input: RulesInput): Rules {
  const { statuses = {}, documents, digest } = input;
  const isUser = createIsUser(input.users);
  const workflow = createWorkflow(input.workflow && { ...input.workflow, isUser }, input.connections);
  const isTrusted = createIsTrusted({ trust: input.workflow?.trust, isUser });
  const links = createLinkRules(input);
  return { links, triage: createTriage(input), workflow, isTrusted, statuses, documents, digest };
}

/** The rules of a workspace without configured rules. */
export const PLAIN_RULES: Rules = createRules({
  trailers: ['Task'],
  links: [],
  addresses: [],
  grammars: [],
  triage: [],
  users: {},
  documents: false,
});

/** The conditions that all evaluations of one transaction share. */
export interface EvaluationContext {
  /** Wall clock, epoch milliseconds. */
  readonly now: number;
  /** u, the used share of the long quota window, 0..1. */
  readonly usedShare: number;
  /** The time within which every change is promised to be visible, milliseconds. Absent: no time is promised. */
  readonly visibility?: number;
  /** The prefixes of this workspace's task ids. Absent: the usual ones. */
  readonly idPrefixes?: readonly string[];
  readonly rules: Rules;
  readonly sources: ReconcileConnections;
}

/** The conditions that answers of the workspace are applied under. */
export interface AnswerContext extends Pick<EvaluationContext, 'now' | 'usedShare' | 'visibility'> {
  /** Orders a reported task among the writes of worksync. Absent: the order is unknown. */
  readonly order?: ReportOrder;
}

/** The facts that order an answer or an event. */
export type ReportOrder = Pick<Answer, 'asOf' | 'receivedRevision' | 'sentAt' | 'key'>;

/** The deliveries because of which an item is evaluated, and their times. */
export interface Cause {
  /** Receipt of the first delivery, epoch milliseconds. */
  readonly since: number;
  /** Receipt of the last delivery. Absent: `since`. */
  readonly latest?: number;
  /** Position of the item in the last delivery, the newest item first. Changes of one page are sent in this order. Absent: 0. */
  readonly place?: number;
  readonly waiting: readonly WaitingDelivery[];
  /** Only a backfill, requested by a person, changed the item: its changes go behind all others. */
  readonly isBackfill?: boolean;
  /** A round of the workspace sweep found the item: its changes go behind all others, and no person requested them. */
  readonly isSweep?: boolean;
  /** The delivery that carried the current content of the item. */
  readonly delivery?: number;
  /** The live webhook that caused the evaluation, perhaps through an answer, a fetch or another item. */
  readonly webhook?: Webhook | undefined;
}

/** An item to evaluate. */
export interface EvaluatedItem {
  readonly item: Item;
  readonly connection: ReconcileConnection;
  readonly cause: Cause;
}

/** The evaluation of one item in one transaction. */
export interface Evaluation extends EvaluationContext, EvaluatedItem {
  readonly query: Scope;
}

/** The largest numbers of removals or closings, creations, repairs and status changes that may wait together. Infinity: no limit. */
export type GuardLimits = WorkspaceConfig['guard'];

/** Names of the status changes that live webhooks caused, by delivery. */
export type LiveStatuses = Map<number, ReadonlySet<string>>;

/** The context of one batch of deliveries. */
export interface BatchContext extends EvaluationContext {
  readonly keyHorizon: KeyHorizon;
  readonly logger: Logger;
  /** Absent: no change is held. */
  readonly guard?: GuardLimits;
  /** Shared by all batches. */
  readonly liveStatuses: LiveStatuses;
}

/**
 * Decides which unknown task keys may be worth a read of the task list. Keys are numbered upwards per prefix. An
 * unknown key above the highest cached one may be a new task; one below it never was a task or is gone. A prefix that
 * no task has (`UTF-8`, `CVE-2026`) is not of this workspace. Most unknown keys therefore cause no request.
 */
export type KeyHorizon = ReturnType<typeof createKeyHorizon>;

/** Prefixes of the workspace's own kinds (W30): they count before the first task of that kind exists. */
const OWN_PREFIXES = ['BUG', 'IDEA'];

export function createKeyHorizon(taskKeys: Iterable<string>) {
  const highest = new Map<string, number>(OWN_PREFIXES.map((prefix) => [prefix, 0]));
  for (const taskKey of taskKeys) {
    const [prefix, number] = splitKey(taskKey);
    highest.set(prefix, Math.max(highest.get(prefix) ?? 0, number));
  }
  return {
    mayBeNew(taskKey: string): boolean {
      const [prefix, number] = splitKey(taskKey);
      return number > (highest.get(prefix) ?? Number.POSITIVE_INFINITY);
    },
  };
}

function splitKey(taskKey: string): [prefix: string, number: number] {
  const at = taskKey.lastIndexOf('-');
  return [taskKey.slice(0, at), Number(taskKey.slice(at + 1))];
}
