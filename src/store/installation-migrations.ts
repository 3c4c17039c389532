import { type RawBuilder, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { type Dialect, dialectOf, textIn } from '../lib/database/dialect.ts';
import { createCounts } from './count-migration.ts';
import {
  COUNT_SHAPES,
  createStatistics,
  describeIndexes,
  NAME_SHAPES,
  REVISION_SHAPES,
  UNVERIFIED_SHAPES,
} from './statistics.ts';
import { createTrace } from './trace-migration.ts';
import { createUsage } from './usage-migration.ts';
import { createWorkspaceTables } from './workspace-tables.ts';

/**
 * A program that knows this migration can work with all tables below, so that two versions run side by side while replicas are
 * upgraded one after the other. A migration that breaks that comes one version after the one that stops using what it removes.
 */
export const READABLE_SINCE = '009_trace';

/** Names sort by age. A migration that has been released is never changed. */
export const INSTALLATION_MIGRATIONS: Readonly<Record<string, Migration>> = {
  '001_sessions': {
    async up(db) {
      await db.schema
        .createTable('installation')
        .addColumn('name', 'text', (column) => column.primaryKey())
        .addColumn('value', 'text', (column) => column.notNull())
        .execute();
      await db.schema
        .createTable('login_links')
        .addColumn('digest', 'text', (column) => column.primaryKey())
        .addColumn('role', 'text', (column) => column.notNull())
        .addColumn('workspaces', 'text')
        .addColumn('expires_at', 'integer', (column) => column.notNull())
        .execute();
      await db.schema
        .createTable('sessions')
        .addColumn('digest', 'text', (column) => column.primaryKey())
        .addColumn('role', 'text', (column) => column.notNull())
        .addColumn('workspaces', 'text')
        .addColumn('opened_by', 'text')
        .addColumn('created_at', 'integer', (column) => column.notNull())
        .addColumn('seen_at', 'integer', (column) => column.notNull())
        .addColumn('expires_at', 'integer', (column) => column.notNull())
        .execute();
    },
  },
  '002_oauth_credentials': {
    async up(db) {
      await db.schema
        .createTable('oauth_credentials')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('refresh', 'text', (column) => column.notNull())
        .addColumn('previous', 'text')
        .addColumn('access', 'text', (column) => column.notNull())
        .addColumn('access_expires_at', 'integer', (column) => column.notNull())
        .addColumn('renewed_at', 'integer', (column) => column.notNull())
        .execute();
    },
  },
  '003_workspaces': {
    async up(db) {
      await db.schema
        .createTable('workspaces')
        .addColumn('id', 'integer', (column) => column.primaryKey().autoIncrement())
        .addColumn('name', 'text', (column) => column.notNull().unique())
        .execute();
      await createWorkspaceTables(db);
    },
  },
  '004_item_addresses': {
    async up(db) {
      // What people name items by: found by an index, and not by reading all of them.
      const dialect = dialectOf(db);
      for (const [name, expression] of [
        ['url', inItem(dialect, 'url')],
        ['called', nameOfItem(dialect)],
      ] as const) {
        await db.schema
          .alterTable('items')
          .addColumn(name, 'text', (column) => column.generatedAlwaysAs(expression))
          .execute();
        await db.schema.createIndex(`items_${name}`).on('items').columns(['workspace', name, 'seen_at']).execute();
      }
    },
  },
  '005_statistics': { up: createStatistics },
  '006_counts': {
    async up(db) {
      await createCounts(db);
      // Those that new rules look at again: few of those that years leave.
      await db.schema
        .createIndex('items_open')
        .on('items')
        .columns(['workspace', 'key'])
        .where(sql.ref('finished'), '=', 0)
        .where(sql.ref('gone'), '=', 0)
        .execute();
      // The highest key of each prefix tells which unknown keys may be those of new tasks.
      for (const [name, type, expression] of taskKeyParts(dialectOf(db))) {
        await db.schema
          .alterTable('tasks')
          .addColumn(name, type, (column) => column.generatedAlwaysAs(expression))
          .execute();
      }
      await db.schema.createIndex('tasks_by_number').on('tasks').columns(['workspace', 'prefix', 'number']).execute();
      await describeIndexes(db, COUNT_SHAPES);
    },
  },
  '007_leases': {
    async up(db) {
      await db.schema
        .createTable('replicas')
        .addColumn('id', 'text', (column) => column.primaryKey())
        .addColumn('incarnation', 'text', (column) => column.notNull().unique())
        .addColumn('address', 'text', (column) => column.notNull())
        .addColumn('expires_at', 'bigint', (column) => column.notNull())
        .execute();
      await db.schema
        .createTable('leases')
        .addColumn('workspace', 'integer', (column) => column.primaryKey())
        .addColumn('incarnation', 'text')
        .addColumn('epoch', 'integer', (column) => column.notNull())
        .execute();
      // One job of the process forgets what is old, and not one of each workspace.
      await sql`delete from job_runs where job = 'retention'`.execute(db);
    },
  },
  '008_usage': { up: createUsage },
  '009_trace': { up: createTrace },
  '010_replicas': {
    async up(db) {
      await db.schema
        .alterTable('replicas')
        .addColumn('about', 'text', (column) => column.notNull().defaultTo('{}'))
        .execute();
    },
  },
  '011_link_revisions': {
    async up(db) {
      await db.schema
        .alterTable('entities')
        .addColumn('revision', 'bigint', (column) => column.notNull().defaultTo(0))
        .execute();
      // Links that worksync removed are purged a day later.
      await db.schema
        .createIndex('entities_gone')
        .on('entities')
        .columns(['workspace', 'known_at'])
        .where(sql.ref('hand'), '=', 'gone')
        .execute();
      await describeIndexes(db, REVISION_SHAPES);
    },
  },
  '012_former_names': {
    async up(db) {
      for (const [name, type] of [
        ['place', 'text'],
        ['container', 'text'],
        ['former_at', 'bigint'],
      ] as const)
        await db.schema.alterTable('item_names').addColumn(name, type).execute();
      await db.schema.createIndex('item_names_place').on('item_names').columns(['workspace', 'place']).execute();
      await describeIndexes(db, NAME_SHAPES);
    },
  },
  '013_unverified_items': {
    async up(db) {
      await db.schema
        .alterTable('items')
        .addColumn('unverified', 'integer', (column) => column.notNull().defaultTo(0))
        .execute();
      // Empty except after a restore. Open items come first.
      await db.schema
        .createIndex('items_unverified')
        .on('items')
        .columns(['workspace', 'connection', 'finished', 'key'])
        .where(sql.ref('unverified'), '=', 1)
        .execute();
      await describeIndexes(db, UNVERIFIED_SHAPES);
    },
  },
};

const PREFIX = sql`rtrim(key, '0123456789')`;
const DIGITS = sql`substr(key, length(${PREFIX}) + 1)`;

/** Of `BUG-12`: `BUG-` and 12. SQLite reads no digits as 0, and too many of them as the highest number. */
function taskKeyParts(dialect: Dialect) {
  const number =
    dialect === 'sqlite'
      ? sql`cast(${DIGITS} as integer)`
      : sql`least(('0' || ${DIGITS})::numeric, 9223372036854775807)::bigint`;
  return [
    ['prefix', 'text', PREFIX],
    ['number', 'integer', number],
  ] as const;
}

function inItem(dialect: Dialect, field: string): RawBuilder<string | null> {
  return textIn(dialect, 'fields', ['item', field]);
}

/** `acme/api#12` for a pull request, and for an issue whose identifier is a bare number; else the identifier: `ENG-123`. */
function nameOfItem(dialect: Dialect): RawBuilder<string | null> {
  const [identifier, repository, container] = ['identifier', 'repoName', 'containerName'].map((field) =>
    inItem(dialect, field),
  );
  return sql`case
  when kind = 'pull_request' then ${repository} || '#' || ${identifier}
  when ${identifier} like '#%' then ${container} || ${identifier}
  else ${identifier} end`;
}
