import { hash } from 'node:crypto';
import type { Connector, Translation } from '../../connectors/connector.ts';
import type { Delivery } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { NamedUnit, Names } from '../../model/names.ts';
import type { Environment } from '../../platform/config/interpolate.ts';
import {
  type BrokenConfig,
  type LoadedConfig,
  type LoadInput,
  loadConfig,
  readConfigText,
} from '../../platform/config/load.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { keepApart, TooMuch } from '../../platform/lib/json-apart.ts';
import { type KnownFiles, knownFiles } from '../../platform/lib/regular-files.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import { type StoredBody, unpackBody } from '../../store/deliveries/bodies.ts';
import { apiOverrides, type RouteName } from '../../workspace-api/contract.ts';
import { readLargeAnswer } from '../../workspace-api/large-answers.ts';

/**
 * The work on bodies and configurations that may be large. Tasks and results can be cloned, so that another thread can
 * do it.
 */
export type WorkerTask =
  | ({ readonly task: 'translate' } & TranslateTask)
  | ({ readonly task: 'parts' } & PartsTask)
  | ({ readonly task: 'read' } & ReadTask)
  | ({ readonly task: 'answer' } & AnswerTask)
  | ({ readonly task: 'config' } & ConfigTask)
  | ({ readonly task: 'configText' } & ConfigTextTask);

export interface TranslateTask {
  readonly connector: string;
  readonly options: unknown;
  /** The vendor's ids of the names in the scope. */
  readonly names?: readonly (readonly [entry: string, id: string])[] | undefined;
  readonly source: Delivery['source'];
  readonly event: string;
  readonly body: StoredBody;
}

export interface WorkerTranslation {
  readonly translation: Translation;
  /** The names and ids that the delivery mentioned. */
  readonly reported: readonly NamedUnit[];
  /** The units that the delivery named, and whether each is in the scope. */
  readonly scopes: readonly (readonly [unit: NamedUnit, isInScope: boolean])[];
}

export interface PartsTask {
  readonly body: StoredBody;
}

/** One element of a page, as a page of its own. */
export interface PageElement {
  readonly body: Uint8Array;
  /** The SHA-256 of the element. */
  readonly content: string;
}

interface ReadTask {
  /** The body of an answer, as received. */
  readonly bytes: Uint8Array;
  readonly keep: Shape | true;
}

/** An answer of the workspace. */
interface AnswerTask {
  readonly route: RouteName;
  /** The body of a success, as received. */
  readonly bytes: Uint8Array;
}

/** The parsed part of an answer. In the answer of a vendor, long texts are set apart. */
export interface ParsedContent {
  readonly content: unknown;
}

/** All workspaces: the input of `loadConfig` that the thread does not have itself. */
export interface ConfigTask {
  readonly path?: string | undefined;
  readonly text?: string | undefined;
  readonly env: Environment;
  readonly envFile?: LoadInput['envFile'];
  /** The contents of the files. */
  readonly known: KnownFiles['known'];
}

/** The text of one workspace, which is only checked. */
export interface ConfigTextTask {
  readonly text: string;
  readonly file: string;
}

/** An error as it passes between two threads. */
export type TransferableError = Pick<SyncError, 'code' | 'message' | 'hint'>;

/** A configuration as it passes between two threads. */
export interface TransferableConfig extends Omit<LoadedConfig, 'broken'> {
  readonly broken: readonly (Omit<BrokenConfig, 'error'> & { readonly error: TransferableError })[];
}

type ResultValue = WorkerTranslation | readonly PageElement[] | ParsedContent | TransferableConfig | WorkspaceConfig;

export type TaskResult = { readonly value: ResultValue } | { readonly error: TransferableError };

/** Never throws. */
export function performTask(task: WorkerTask, connectors: readonly Connector<unknown>[]): TaskResult {
  try {
    return { value: resultOf(task, connectors) };
  } catch (error) {
    return { error: transferableError(asSyncError(error)) };
  }
}

function resultOf(task: WorkerTask, connectors: readonly Connector<unknown>[]): ResultValue {
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

function transferableConfig({ broken, ...config }: LoadedConfig): TransferableConfig {
  return { ...config, broken: broken.map(({ error, ...each }) => ({ ...each, error: transferableError(error) })) };
}

function parse({ bytes, keep }: ReadTask): ParsedContent {
  try {
    return { content: keepApart(parseJson(bytes), keep) };
  } catch (error) {
    if (error instanceof JsonError) throw new SyncError('answer_malformed', error.message, { cause: error });
    if (error instanceof TooMuch) throw new SyncError('answer_too_large', error.message, { cause: error });
    throw error;
  }
}

function translate(task: TranslateTask, connectors: readonly Connector<unknown>[]): WorkerTranslation {
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

function partsOf({ body }: PartsTask): PageElement[] {
  const page = parseJson(bytesOf(body));
  const path = pathToList(page);
  if (path === undefined) return [];
  return (valueAt(page, path) as readonly unknown[]).map((element) => ({
    body: Buffer.from(JSON.stringify(withList(page, path, [element]))),
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
