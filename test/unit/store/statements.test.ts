import type { CompiledQuery, DatabaseConnection } from 'kysely';
import { describe, expect, it } from 'vitest';
import { compileStatement } from '../../../src/store/compiled-statement.ts';
import type { Store } from '../../../src/store/database.ts';
import { CHUNK_SIZE, changeInChunks, changeKeysInChunks } from '../../../src/store/in-chunks.ts';
import type { Schema } from '../../../src/store/schema/tables.ts';
import { turnsBetweenCommits } from '../../support/cost/turns-of-others.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { kyselyOver } from '../../support/harness/kysely-over.ts';

/** A database that only records its statements. */
function recordingDatabase(kind: 'sqlite' | 'postgres') {
  const statements: Pick<CompiledQuery, 'sql' | 'parameters'>[] = [];
  const connection: DatabaseConnection = {
    async executeQuery({ sql, parameters }) {
      statements.push({ sql, parameters });
      return { rows: [] };
    },
    streamQuery: () => {
      throw new Error('nothing is streamed');
    },
  };
  return { statements, query: kyselyOver<Schema>(connection, kind) };
}

describe('compileStatement', () => {
  it('builds a statement once for each dialect, and runs it with the values of each call', async () => {
    let builds = 0;
    const statement = compileStatement(
      (query, { pattern, limit }: { readonly pattern: string; readonly limit: number }) => {
        builds++;
        const rows = query.selectFrom('workspaces').select('id').where('name', 'like', pattern);
        return rows.where('id', '!=', 7).limit(limit);
      },
    );
    const file = recordingDatabase('sqlite');
    const server = recordingDatabase('postgres');
    for (const { query } of [file, server, file]) {
      await statement(query, { pattern: 'a%', limit: 1 });
      await statement(query, { limit: 2, pattern: 'b%' });
    }
    expect(builds).toBe(2);
    expect(file.statements.map(({ parameters }) => parameters)).toEqual([
      ['a%', 7, 1],
      ['b%', 7, 2],
      ['a%', 7, 1],
      ['b%', 7, 2],
    ]);
    expect(new Set(file.statements.map(({ sql }) => sql)).size).toBe(1);
    expect(server.statements.map(({ sql }) => sql)[0]).toContain('limit $3');
  });
});

/** A change that finds these numbers of rows, one after the other. */
function finding(...numbers: number[]): () => Promise<number> {
  return async () => numbers.shift() as number;
}

describe('changeInChunks', () => {
  it.each<[found: readonly number[], changed: number]>([
    [[0], 0],
    [[3], 3],
    [[CHUNK_SIZE, 0], CHUNK_SIZE],
    [[CHUNK_SIZE, CHUNK_SIZE, 1], 2 * CHUNK_SIZE + 1],
  ])('repeats a change that finds %j rows until it finds less than a chunk', async (found, changed) => {
    const store = await openTestStore();
    const left = [...found];
    expect(await changeInChunks(store, async () => left.shift() as number)).toBe(changed);
    expect(left).toEqual([]);
  });

  it('changes the row of each key once', async () => {
    const store = await openTestStore();
    const sizes: number[] = [];
    const keys = Array.from({ length: CHUNK_SIZE + 1 }, (_, at) => at);
    const change = async (_query: unknown, chunk: readonly number[]) => {
      sizes.push(chunk.length);
      return chunk.length;
    };
    expect(await changeKeysInChunks(store, [...keys, 0, 1], change)).toBe(CHUNK_SIZE + 1);
    expect(sizes).toEqual([CHUNK_SIZE, 1]);
  });

  it.each<[what: string, change: (store: Store) => Promise<number>]>([
    ['rows that it finds', (store) => changeInChunks(store, finding(CHUNK_SIZE, CHUNK_SIZE, 0))],
    [
      'keys',
      (store) =>
        changeKeysInChunks(
          store,
          Array.from({ length: 3 * CHUNK_SIZE }, (_, at) => at),
          async () => 1,
        ),
    ],
  ])('yields at least ten turns between two chunks of %s', async (_what, change) => {
    const turns = await turnsBetweenCommits(async (store) => () => change(store));
    expect(turns).toHaveLength(2);
    expect(Math.min(...turns)).toBeGreaterThanOrEqual(10);
  });
});
