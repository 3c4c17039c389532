import type { CompiledQuery, DatabaseConnection, QueryResult } from 'kysely';
import type { SharedDatabase } from '../../src/daemon/daemon-context.ts';
import { DatabaseFault } from '../../src/platform/database/database-fault.ts';
import { type Installation, installationOver } from '../../src/store/installation/installation.ts';
import { localTime } from '../../src/store/installation/leases.ts';
import type { Schema } from '../../src/store/schema/tables.ts';
import type { Sql } from '../../src/store/workspace-scope.ts';
import type { Chance } from '../bench/quota/references/chance.ts';
import type { TravellingClock } from '../support/fakes/travelling-clock.ts';
import { kyselyOver } from '../support/harness/kysely-over.ts';
import type { Life } from './life.ts';
import { type StatementWatch, watchedDatabase } from './statements.ts';

/** A database in memory that several processes work on as on a server: one connection, statements in the order they come. */
export interface DatabaseServer {
  readonly installation: Installation;
  /** How far its clock is ahead, milliseconds. */
  ahead: number;
  /** The share of statements and commits without an answer, 0 to 1. */
  failing: number;
  /** It takes nothing and refuses nothing: whoever asks waits until that is over. */
  hang(isHanging: boolean): void;
  viewOf(life: Life): SharedDatabase;
}

interface Surroundings {
  readonly clock: TravellingClock;
  readonly chance: Chance;
  /** Which of them those are. */
  readonly failures: Chance;
  /** Called after each commit by which leases may have been taken. */
  readonly onTaken: () => Promise<void>;
  /** Called within each transaction that a process began as the owner of a workspace, before its end. */
  readonly onOwn: (life: Life, workspace: string, transaction: Sql, text?: string) => Promise<void>;
  readonly watchOf: (life: Life) => StatementWatch;
  /** Lone statements and relaxed commits begin late, and answers to statements come late. */
  readonly slowness: Slowness;
}

/** One signal of so many is lost. */
const LOST_SIGNALS = 0.1;

export function createDatabaseServer(
  installation: Installation,
  { clock, chance, failures, onTaken, onOwn, watchOf, slowness }: Surroundings,
): DatabaseServer {
  const listeners = new Map<Life, { channel: string; hear: (payload: string) => void }>();
  let isHanging = false;
  let waiting: (() => void)[] = [];
  const hang = (is: boolean) => {
    isHanging = is;
    for (const go of waiting) go();
    waiting = [];
  };
  const server: DatabaseServer = { installation, ahead: 0, failing: 0, hang, viewOf };
  const now = () => clock.now() + server.ahead;

  function notify(channel: string, payload: string): void {
    for (const [life, listener] of listeners) {
      if (!life.isAlive()) listeners.delete(life);
      else if (listener.channel === channel && !chance.happens(LOST_SIGNALS))
        clock.after(chance.whole(1, 20), () => life.whenAwake(() => listener.hear(payload)));
    }
  }

  function viewOf(life: Life): SharedDatabase {
    let isClosed = false;
    const awake = async () => {
      while (isHanging) await new Promise<void>((resolve) => void waiting.push(resolve));
      if (!life.isAwake()) await new Promise<void>((resolve) => life.whenAwake(resolve));
      if (isClosed) throw new Error('its connection is closed');
      if (server.failing > 0 && failures.happens(server.failing))
        throw new DatabaseFault('away', 'the server', 'it does not answer');
    };
    const executor = installation.query.getExecutor();
    const connectionOf = (onWritten: (text: string) => Promise<void>): DatabaseConnection => ({
      async executeQuery<Row>(statement: CompiledQuery) {
        await slowness.pass();
        await awake();
        const writes = !/^\s*(?:select|with)/i.test(statement.sql);
        if (writes) life.steps.reached('commit', 'before');
        const result = (await executor.executeQuery(statement)) as QueryResult<Row>;
        if (writes) await onWritten(statement.sql);
        if (writes) life.steps.reached('commit', 'after');
        await slowness.pass();
        await awake();
        return result;
      },
      streamQuery: () => {
        throw new Error('nothing is streamed here');
      },
    });
    const queryOf = (onWritten: (text: string) => Promise<void>) =>
      kyselyOver<Schema>(connectionOf(onWritten), 'sqlite');
    const committing =
      (commit: Installation['commit'], isRelaxed = false): Installation['commit'] =>
      async (work) => {
        // Other stages commit between the reading of a batch by reconcile and its commit.
        if (isRelaxed) await slowness.pass();
        await awake();
        const result = await commit(async (transaction) => {
          life.check();
          const done = await work(transaction);
          life.steps.reached('commit', 'before');
          return done;
        });
        life.steps.reached('commit', 'after');
        await awake();
        return result;
      };
    const { asFile: _, ...rest } = installation;
    const asServer = {
      pending: () => 0,
      time: async () => ({ now: now(), clock: 'one' }),
      notify: async (channel: string, payload: string) => notify(channel, payload),
      async listen(channel: string, hear: (payload: string) => void) {
        listeners.set(life, { channel, hear });
        return async () => void listeners.delete(life);
      },
      facts: () => Promise.reject(new Error('nobody asks for the facts of this server')),
    };
    const watch = watchOf(life);
    const unseen = {
      ...{ ...rest, asServer, query: queryOf(async () => undefined), commit: committing(installation.commit) },
      commitRelaxed: committing(installation.commitRelaxed, true),
      close: async () => void (isClosed = true),
    };
    const database = watchedDatabase(unseen, watch);
    const shared = installationOver(database, installation.id);
    // Only who owns a workspace gives a fence with its name, if perhaps none.
    const store: Installation['store'] = async (...asked) => {
      if (asked.length === 1) return shared.store(...asked);
      const own = queryOf((text) => onOwn(life, `${asked[0]}`, installation.query, text));
      const ownDatabase = watchedDatabase({ ...unseen, query: own }, watch);
      const opened = await installationOver(ownDatabase, installation.id).store(...asked);
      const looking =
        (commitOwn: typeof opened.commit): typeof opened.commit =>
        (work) =>
          commitOwn(async (scope) => {
            const result = await work(scope);
            await onOwn(life, asked[0], scope.whole);
            return result;
          });
      return { ...opened, commit: looking(opened.commit), commitRelaxed: looking(opened.commitRelaxed) };
    };
    return {
      installation: { ...shared, store },
      leaseDatabase: {
        query: database.query,
        async commit(work) {
          const result = await database.commit(work);
          await onTaken();
          return result;
        },
        close: async () => undefined,
      },
      time: localTime({ now }),
    };
  }

  return server;
}

export type Slowness = ReturnType<typeof createSlowness>;

export function createSlowness(clock: TravellingClock, chance: Chance) {
  const slowness = {
    /** The longest delay, milliseconds; 0: none. */
    by: 0,
    async pass(): Promise<void> {
      if (slowness.by > 0) await new Promise<void>((resolve) => clock.after(chance.whole(0, slowness.by), resolve));
    },
  };
  return slowness;
}
