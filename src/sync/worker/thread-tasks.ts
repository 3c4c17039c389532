import { hash } from 'node:crypto';
import type { Connector, Translation } from '../../connectors/connector.ts';
import type { Delivery } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { NamedUnit } from '../../model/names.ts';
import type { Environment } from '../../platform/config/interpolate.ts';
import { type BrokenConfig, type LoadedConfig, loadConfig, readConfigText } from '../../platform/config/load.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { keepApart, TooMuch } from '../../platform/lib/json-apart.ts';
import type { Shape } from '../../platform/lib/shape.ts';
import { type StoredBody, unpackBody } from '../../store/bodies.ts';
import { apiOverrides, type RouteName } from '../../workspace-api/contract.ts';
import { readLargeAnswer } from '../../workspace-api/large-answers.ts';

/**
 * The work on bodies and configurations that may be large: cloneable both ways, so that another thread can do it.
 */
export type Task =
  | ({ readonly task: 'translate' } & TranslateTask)
  | ({ readonly task: 'parts' } & PartsTask)
  | ({ readonly task: 'read' } & ReadTask)
  | ({ readonly task: 'answer' } & AnswerTask)
  | ({ readonly task: 'config' } & ConfigTask)
  | ({ readonly task: 'configText' } & ConfigTextTask);

export interface TranslateTask {
  readonly connector: string;
  readonly options: unknown;
  /** What the names in the scope are bound to. */
  readonly names?: readonly (readonly [entry: string, id: string])[] | undefined;
  readonly source: Delivery['source'];
  readonly event: string;
  readonly body: StoredBody;
}

export interface Translated {
  readonly translation: Translation;
  /** What the delivery said about names. */
  readonly told: readonly NamedUnit[];
}

export interface PartsTask {
  readonly body: StoredBody;
}

/** One element of a page: as a page of its own, and what names its content. */
export interface Part {
  readonly body: Uint8Array;
  readonly content: string;
}

export interface ReadTask {
  /** The body of an answer, as it came. */
  readonly bytes: Uint8Array;
  readonly keep: Shape | true;
}

/** An answer of the workspace. */
export interface AnswerTask {
  readonly route: RouteName;
  /** The body of a success, as it came. */
  readonly bytes: Uint8Array;
}

/** What was kept of an answer; of a vendor's with what is long set apart. */
export interface Content {
  readonly content: unknown;
}

/** All workspaces: `LoadInput` without what the thread has itself. */
export interface ConfigTask {
  readonly path?: string | undefined;
  readonly text?: string | undefined;
  readonly env: Environment;
}

/** One workspace from a text that is only tried. */
export interface ConfigTextTask {
  readonly text: string;
  readonly file: string;
}

/** An error on its way between two threads. */
export type PlainError = Pick<SyncError, 'code' | 'message' | 'hint'>;

/** A configuration on its way between two threads. */
export interface PlainConfig extends Omit<LoadedConfig, 'broken'> {
  readonly broken: readonly (Omit<BrokenConfig, 'error'> & { readonly error: PlainError })[];
}

type Value = Translated | readonly Part[] | Content | PlainConfig | WorkspaceConfig;

export type Done = { readonly value: Value } | { readonly error: PlainError };

export function perform(task: Task, connectors: readonly Connector<unknown>[]): Done {
  try {
    return { value: resultOf(task, connectors) };
  } catch (error) {
    return { error: plain(asSyncError(error)) };
  }
}

function plain({ code, message, hint }: SyncError): PlainError {
  return { code, message, hint };
}

function resultOf(task: Task, connectors: readonly Connector<unknown>[]): Value {
  switch (task.task) {
    case 'translate':
      return translate(task, connectors);
    case 'parts':
      return partsOf(task);
    case 'read':
      return read(task);
    case 'answer':
      return { content: readLargeAnswer(task.route, task.bytes) };
    case 'config':
      return plainConfig(loadConfig({ ...task, connectors, apiOverrides }));
    case 'configText':
      return readConfigText(task.text, { connectors, apiOverrides }, task.file);
  }
}

function plainConfig({ broken, ...config }: LoadedConfig): PlainConfig {
  return { ...config, broken: broken.map(({ error, ...each }) => ({ ...each, error: plain(error) })) };
}

function read({ bytes, keep }: ReadTask): Content {
  try {
    return { content: keepApart(parseJson(bytes), keep) };
  } catch (error) {
    if (error instanceof JsonError) throw new SyncError('answer_malformed', error.message, { cause: error });
    if (error instanceof TooMuch) throw new SyncError('answer_too_large', error.message, { cause: error });
    throw error;
  }
}

function translate(task: TranslateTask, connectors: readonly Connector<unknown>[]): Translated {
  const connector = connectors.find(({ id }) => id === task.connector);
  if (!connector) throw new SyncError('config_invalid', `there is no connector "${task.connector}"`);
  const told: NamedUnit[] = [];
  const bound = new Map(task.names);
  const names = task.names && {
    idOf: (entry: string) => bound.get(entry.toLowerCase()),
    told: (seen: NamedUnit) => void told.push(seen),
  };
  const options = names === undefined ? task.options : { ...(task.options as object), names };
  const { source, event } = task;
  return { translation: connector.translate({ source, event, body: bytesOf(task.body) }, options), told };
}

/** A body that came from another thread is no `Buffer` any more. */
function bytesOf({ body, unpacked_length }: StoredBody): Buffer {
  return unpackBody({ body: Buffer.from(body.buffer, body.byteOffset, body.byteLength), unpacked_length });
}

/** How deep the list of a page may lie in its body. */
const DEEPEST_LIST = 4;

/** The elements of a page, each as a page of its own. Empty where the body is no page. */
function partsOf({ body }: PartsTask): Part[] {
  const page = parseJson(bytesOf(body));
  const path = pathToList(page);
  if (path === undefined) return [];
  return (at(page, path) as readonly unknown[]).map((element) => ({
    body: Buffer.from(JSON.stringify(withList(page, path, [element]))),
    content: hash('sha256', JSON.stringify(element) ?? '', 'hex'),
  }));
}

/**
 * The page itself, where it is a list, or the first list with an object in it: connectors write what a page is about before
 * what stands beside it. Some elements may be no objects.
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

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce((inside, name) => (inside as Record<string, unknown>)[name], value);
}

function withList(value: unknown, [name, ...rest]: readonly string[], list: readonly unknown[]): unknown {
  if (name === undefined) return list;
  const object = value as Record<string, unknown>;
  return { ...object, [name]: withList(object[name], rest, list) };
}
