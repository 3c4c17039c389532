import { hash } from 'node:crypto';
import type { Connector } from '../../connectors/connector.ts';
import type { Delivery } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { NamedUnit, Names } from '../../model/names.ts';
import type { Environment } from '../../platform/config/interpolate.ts';
import { type LoadedConfig, type LoadInput, loadConfig, readConfigText } from '../../platform/config/load.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { type KnownFiles, knownFiles } from '../../platform/lib/regular-files.ts';
import { keepApart, type Shape, TooMuch } from '../../platform/lib/shape.ts';
import { type StoredBody, unpackBody } from '../../store/deliveries/inbox.ts';
import { apiOverrides, type RouteName } from '../../workspace-api/contract.ts';
import { readLargeAnswer } from '../../workspace-api/typed-client.ts';

/**
 * The work on bodies and configurations that may be large. Tasks and results can be cloned, so that another thread can
 * do it.
 */
export type WorkerTask =
  | ({ readonly task: 'translate' } & TranslateTask)
  | ({ readonly task: 'parts' } & PartsTask)
  | ({ readonly task: 'read' } & ReadTask)
  /** Parses the body of a successful answer of the workspace, as received. */
  | { readonly task: 'answer'; readonly route: RouteName; readonly bytes: Uint8Array }
  | ({ readonly task: 'config' } & ConfigTask)
  /** Checks the text of one workspace. */
  | { readonly task: 'configText'; readonly text: string; readonly file: string };

interface TranslateTask {
  readonly connector: string;
  readonly options: unknown;
  /** The vendor's ids of the names in the scope. */
  readonly names?: readonly (readonly [entry: string, id: string])[] | undefined;
  readonly source: Delivery['source'];
  readonly event: string;
  readonly body: StoredBody;
}

interface PartsTask {
  readonly body: StoredBody;
}

interface ReadTask {
  /** The body of an answer, as received. */
  readonly bytes: Uint8Array;
  readonly keep: Shape | true;
}

/** All workspaces: the input of `loadConfig` that the thread does not have itself. */
interface ConfigTask {
  readonly path?: string | undefined;
  readonly text?: string | undefined;
  readonly env: Environment;
  readonly envFile?: LoadInput['envFile'];
  /** The contents of the files. */
  readonly known: KnownFiles['known'];
}

/** The input of one kind of task. */
export type TaskInput<Kind extends WorkerTask['task']> = Omit<Extract<WorkerTask, { readonly task: Kind }>, 'task'>;

/** The results by the kind of the task. */
export interface TaskResults {
  readonly translate: ReturnType<typeof translate>;
  readonly parts: ReturnType<typeof partsOf>;
  readonly read: ReturnType<typeof parse>;
  readonly answer: ReturnType<typeof parse>;
  readonly config: ReturnType<typeof transferableConfig>;
  readonly configText: WorkspaceConfig;
}

/** An error as it passes between two threads. */
export type TransferableError = Pick<SyncError, 'code' | 'message' | 'hint'>;

export type TaskResult = { readonly value: TaskResults[WorkerTask['task']] } | { readonly error: TransferableError };

/** Never throws. */
export function performTask(task: WorkerTask, connectors: readonly Connector<unknown>[]): TaskResult {
  try {
    return { value: resultOf(task, connectors) };
  } catch (error) {
    return { error: transferableError(asSyncError(error)) };
  }
}

function resultOf(task: WorkerTask, connectors: readonly Connector<unknown>[]): TaskResults[WorkerTask['task']] {
  switch (task.task) {
    case 'translate':
      return translate(task, connectors);
    case 'parts':
      return partsOf(task);
    case 'read':
      return parse(task);
    case 'answer':
      return { content: readLargeAnswer(task.route, task.bytes) };
    case 'config':
      return transferableConfig(loadConfig({ ...task, files: knownFiles(task.known), connectors, apiOverrides }));
    case 'configText':
      return readConfigText(task.text, { connectors, apiOverrides }, task.file);
  }
}

function transferableError({ code, message, hint }: SyncError): TransferableError {
  return { code, message, hint };
}

function transferableConfig({ broken, ...config }: LoadedConfig) {
  return { ...config, broken: broken.map(({ error, ...each }) => ({ ...each, error: transferableError(error) })) };
}

/** Returns the parsed part of an answer. In the answer of a vendor, long texts are set apart. */
function parse({ bytes, keep }: ReadTask): { readonly content: unknown } {
  try {
    return { content: keepApart(parseJson(bytes), keep) };
  } catch (error) {
    if (error instanceof JsonError) throw new SyncError('answer_malformed', error.message, { cause: error });
    if (error instanceof TooMuch) throw new SyncError('answer_too_large', error.message, { cause: error });
    throw error;
  }
}

/**
 * Translates a delivery. Returns also the names and ids that it mentioned, and the units that it named, with whether each
 * is in the scope.
 */
function translate(task: TranslateTask, connectors: readonly Connector<unknown>[]) {
  const connector = connectors.find(({ id }) => id === task.connector);
  if (!connector) throw new SyncError('config_invalid', `there is no connector "${task.connector}"`);
  const reported: NamedUnit[] = [];
  const ids = new Map(task.names);
  const scopes: (readonly [NamedUnit, boolean])[] = [];
  const names: Pick<Names, 'idOf' | 'report' | 'reportScope'> | undefined = task.names && {
    idOf: (entry: string) => ids.get(entry.toLowerCase()),
    report: (unit) => void reported.push(unit),
    reportScope: (unit, isInScope) => void scopes.push([unit, isInScope]),
  };
  const options = names === undefined ? task.options : { ...(task.options as object), names };
  const { source, event } = task;
  return { translation: connector.translate({ source, event, body: bytesOf(task.body) }, options), reported, scopes };
}

/** Unpacks a body, which is no `Buffer` after it came from another thread. */
function bytesOf({ body, unpacked_length }: StoredBody): Buffer {
  return unpackBody({ body: Buffer.from(body.buffer, body.byteOffset, body.byteLength), unpacked_length });
}

/** The deepest level at which a page may contain its list. */
const DEEPEST_LIST = 4;

/** Returns each element of a page as a page of its own, with the SHA-256 of the element. */
function partsOf({ body }: PartsTask) {
  const page = parseJson(bytesOf(body));
  const path = pathToList(page);
  if (path === undefined) return [];
  return (valueAt(page, path) as readonly unknown[]).map((element) => ({
    body: Buffer.from(JSON.stringify(withList(page, path, [element]))) as Uint8Array,
    content: hash('sha256', JSON.stringify(element) ?? '', 'hex'),
  }));
}

/**
 * Returns the path to the page itself if it is a list, else to the first list with an object in it, because connectors
 * write the elements of a page before its other fields. Some elements may be no objects.
 */
function pathToList(value: unknown, path: readonly string[] = []): readonly string[] | undefined {
  if (Array.isArray(value)) return path.length === 0 || value.some(isObject) ? path : undefined;
  if (!isObject(value) || path.length >= DEEPEST_LIST) return undefined;
  for (const [name, inside] of Object.entries(value)) {
    const found = pathToList(inside, [...path, name]);
    if (found) return found;
  }
  return undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce((inside, name) => (inside as Record<string, unknown>)[name], value);
}

function withList(value: unknown, [name, ...rest]: readonly string[], list: readonly unknown[]): unknown {
  if (name === undefined) return list;
  const object = value as Record<string, unknown>;
  return { ...object, [name]: withList(object[name], rest, list) };
}
