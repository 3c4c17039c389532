import { startNode } from './processes.ts';

/** Another program that has a database of ours open, and has begun something there. */
export interface OtherProgram {
  /** Ends it, and what it has begun. */
  end(): Promise<void>;
}

/** A process that carries out the statements, and then holds what they took until it is ended. */
export async function startOtherProgram(file: string, statements: readonly string[]): Promise<OtherProgram> {
  const script = `
    import BetterSqlite from 'better-sqlite3';
    const database = new BetterSqlite(${JSON.stringify(file)}, { timeout: 60_000 });
    for (const statement of ${JSON.stringify(statements)}) {
      const prepared = database.prepare(statement);
      if (prepared.reader) prepared.all();
      else prepared.run();
    }
    process.stdout.write('holds it');
    process.stdin.on('end', () => database.close()).resume();`;
  const process = startNode(['--input-type=module', '-e', script], { isTyped: true });
  await process.says('holds it');
  return {
    async end() {
      process.child.stdin?.end();
      await process.ended;
    },
  };
}
