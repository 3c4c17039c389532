import { type LimitNode, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler, ValueNode } from 'kysely';
import type { Words } from './direct-executor.ts';

/**
 * SQLite changes schemas inside transactions, though Kysely does not count on it. With this the migrations and the rows
 * that remember them are one commit: a process killed in between finds either all of it or nothing.
 */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/**
 * SQLite reads the values of some parameters while it plans: of `limit ?`, and of `column = ?` beside an `order by`. It then plans such a
 * statement anew for each run, which takes up to thirty times as long as the run. It does not read `+?`, nor the sum after `limit`.
 */
class Compiler extends SqliteQueryCompiler {
  protected override getCurrentParameterPlaceholder(): string {
    return '+?';
  }

  protected override visitLimit({ limit }: LimitNode): void {
    this.append('limit ');
    if (ValueNode.is(limit) && typeof limit.value === 'number') {
      this.appendImmediateValue(limit.value);
      return;
    }
    this.visitNode(limit);
    this.append(' + 0');
  }
}

/** How statements are written for SQLite. */
export const SQLITE_WORDS: Words = {
  createAdapter: () => new TransactionalAdapter(),
  createIntrospector: (query) => new SqliteIntrospector(query),
  createQueryCompiler: () => new Compiler(),
};
