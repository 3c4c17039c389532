import type { CompiledQuery, DatabaseConnection } from 'kysely';
import { describe, expect, it } from 'vitest';
import { compileStatement } from '../../../src/store/compiled-statement.ts';
import type { Schema } from '../../../src/store/schema/tables.ts';
import { kyselyOver } from '../../support/kysely-over.ts';

/** What reaches a database of this kind. */
function listening(kind: 'sqlite' | 'postgres') {
  const asked: Pick<CompiledQuery, 'sql' | 'parameters'>[] = [];
  const connection: DatabaseConnection = {
    async executeQuery({ sql, parameters }) {
      asked.push({ sql, parameters });
      return { rows: [] };
    },
    streamQuery: () => {
      throw new Error('nothing is streamed');
    },
  };
  return { asked, query: kyselyOver<Schema>(connection, kind) };
}

interface Given {
  readonly names: string;
  readonly most: number;
}

describe('a standing statement', () => {
  it('is built once for each dialect, and asked each time with the values that are given then', async () => {
    let built = 0;
    const statement = compileStatement((query, { names, most }: Given) => {
      built++;
      return query.selectFrom('workspaces').select('id').where('name', 'like', names).where('id', '!=', 7).limit(most);
    });
    const [file, server] = [listening('sqlite'), listening('postgres')];
    for (const { query } of [file, server, file]) {
      await statement(query, { names: 'a%', most: 1 });
      await statement(query, { most: 2, names: 'b%' });
    }
    expect(built).toBe(2);
    expect(file.asked.map(({ parameters }) => parameters)).toEqual(
      [1, 2].flatMap(() => [
        ['a%', 7, 1],
        ['b%', 7, 2],
      ]),
    );
    expect(new Set(file.asked.map(({ sql }) => sql)).size).toBe(1);
    expect(server.asked.map(({ sql }) => sql)[0]).toContain('limit $3');
  });
});
