import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { Schema } from '../../../../src/store/schema/tables.ts';
import { kyselyOver } from '../../../support/harness/kysely-over.ts';

const query = kyselyOver<Schema>({ executeQuery: async () => ({ rows: [] }), streamQuery: () => undefined! }, 'sqlite');
const meta = query.selectFrom('meta').select('name');

describe('a limit', () => {
  it('that is a number stands in the text, which SQLite plans once', () => {
    expect(meta.limit(7).compile()).toMatchObject({ sql: 'select "name" from "meta" limit 7', parameters: [] });
  });

  it('that is only known later is a sum, at which SQLite does not look while it plans', () => {
    const later = meta.limit(sql<number>`${'later'}`).compile();
    expect(later).toMatchObject({ sql: 'select "name" from "meta" limit ? + 0', parameters: ['later'] });
  });
});
