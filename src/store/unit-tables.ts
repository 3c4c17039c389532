import type { Selectable } from 'kysely';
import type { Tables } from './tables.ts';

/**
 * The tables whose rows a batch holds in memory while it works: the columns that are written, those of the key, and those by
 * which rows are looked for.
 */
export const KEPT = {
  meta: table('meta', { columns: ['name', 'value'], key: ['name'], by: ['name'] }),
  items: table('items', {
    columns: [
      ...(['key', 'kind', 'connector', 'connection', 'provider_time', 'hash'] as const),
      ...(['finished', 'gone', 'fields', 'seen_at', 'standing', 'deliveries', 'unverified'] as const),
    ],
    key: ['key'],
    by: ['key'],
  }),
  mentions: table('mentions', {
    columns: ['item_key', 'name', 'reason'],
    key: ['item_key', 'name'],
    by: ['item_key', 'name'],
  }),
  item_names: table('item_names', {
    columns: ['item_key', 'name', 'place', 'container', 'former_at'],
    key: ['item_key', 'name'],
    by: ['item_key', 'name', 'place'],
  }),
  tasks: table('tasks', {
    columns: ['task_id', 'key', 'source', 'status', 'fields', 'seen_at'],
    key: ['task_id'],
    by: ['task_id', 'key', 'source'],
  }),
  entities: table('entities', {
    columns: [
      ...(['entity', 'kind', 'item_key', 'task_id', 'desired', 'known'] as const),
      ...(['known_at', 'remote_id', 'hand', 'written', 'revision'] as const),
    ],
    key: ['entity'],
    by: ['entity', 'item_key', 'task_id'],
  }),
  outbox: table('outbox', {
    columns: [
      ...(['entity', 'kind', 'lane', 'since', 'due', 'weight', 'not_before', 'attempts', 'state'] as const),
      ...(['sent', 'sent_at', 'next_since', 'error', 'effect', 'guard', 'waiting'] as const),
    ],
    key: ['entity'],
    by: ['entity'],
  }),
  notices: table('notices', {
    columns: [
      ...(['item_key', 'kind', 'connection', 'wanted', 'done', 'state'] as const),
      ...(['not_before', 'attempts', 'error', 'standing'] as const),
    ],
    key: ['item_key', 'kind'],
    by: ['item_key'],
  }),
  fetches: table('fetches', {
    columns: [
      ...(['reference', 'connection', 'since', 'not_before'] as const),
      ...(['attempts', 'error', 'delivery_id', 'asks'] as const),
    ],
    key: ['reference'],
    by: ['reference'],
  }),
  workspace_sweeps: table('workspace_sweeps', {
    columns: [
      ...(['id', 'started_at', 'tasks_at', 'tasks', 'list_began_at', 'records'] as const),
      ...(['records_at', 'finished_at'] as const),
    ],
    key: ['id'],
    by: ['workspace'],
  }),
  workspace_findings: table('workspace_findings', {
    columns: ['sweep', 'entity', 'what', 'found_at'],
    key: ['sweep', 'entity', 'what'],
    by: [],
  }),
} as const;

/** To look for all rows of a table that has few: the value of its column `workspace`. */
export const ALL = 0;

export type UnitTable = keyof typeof KEPT;

/** Without what the database makes itself. */
export type UnitRow<T extends UnitTable> =
  (typeof KEPT)[T] extends KeptShape<T, infer Column, infer _Key, infer _By>
    ? Pick<Selectable<Tables[T]>, Column>
    : never;

/** The columns of the key. */
export type KeyOf<T extends UnitTable> =
  (typeof KEPT)[T] extends KeptShape<T, infer _Column, infer Key, infer _By> ? Pick<Selectable<Tables[T]>, Key> : never;

/** The columns by which rows are looked for. */
export type LookedBy<T extends UnitTable> = (typeof KEPT)[T]['by'][number];

type ColumnOf<T extends keyof Tables> = keyof Selectable<Tables[T]> & string;

interface KeptShape<
  T extends keyof Tables,
  Column extends ColumnOf<T>,
  Key extends ColumnOf<T>,
  By extends ColumnOf<T> | 'workspace',
> {
  readonly table: T;
  readonly columns: readonly Column[];
  readonly key: readonly Key[];
  readonly by: readonly By[];
}

function table<
  T extends keyof Tables,
  const Column extends ColumnOf<T>,
  const Key extends ColumnOf<T>,
  const By extends ColumnOf<T> | 'workspace' = never,
>(name: T, shape: Omit<KeptShape<T, Column, Key, By>, 'table'>): KeptShape<T, Column, Key, By> {
  return { table: name, ...shape };
}
