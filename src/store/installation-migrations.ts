import type { Migration } from 'kysely/migration';
import { createWorkspaceTables } from './workspace-tables.ts';

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
};
