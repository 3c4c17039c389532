import type { CompiledQuery, DatabaseConnection, QueryResult } from 'kysely';
import { onTestFinished } from 'vitest';
import { createClockOffset } from '../../../src/cluster/clock-offset.ts';
import type { LeaseHolder } from '../../../src/cluster/lease-holder.ts';
import { createPostgresLeaseHolder } from '../../../src/cluster/postgres-holder.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { type LogFields, silentLogger } from '../../../src/platform/lib/telemetry.ts';
import type { Installation } from '../../../src/store/installation/installation.ts';
import { localTime } from '../../../src/store/installation/leases.ts';
import type { Schema } from '../../../src/store/schema/tables.ts';
import { createTravellingClock, type TravellingClock } from '../fakes/travelling-clock.ts';
import { createWakefulness } from '../fakes/wakefulness.ts';
import { kyselyOver } from '../harness/kysely-over.ts';
import { openTestInstallation } from '../harness/store.ts';
import { ON_POSTGRES } from './store-place.ts';

/** One process of several: its timers and its answers of the database reach it only while it lives and is awake. */
export interface Member {
  readonly name: string;
  readonly holder: LeaseHolder;
  isAlive(): boolean;
  isAwake(): boolean;
  kill(): void;
  /** As SIGSTOP and SIGCONT do: time passes meanwhile, and its own timers go off late. */
  sleep(): void;
  wake(): void;
  /** Workspaces that it owns and trusts at this moment, also while asleep or dead: those that it would use if it went on now. */
  trusts(): readonly string[];
  /** How many workspaces it took that nobody had given back. */
  takeovers(): number;
}

type Way = 'there' | 'back';

export type Cluster = Awaited<ReturnType<typeof openCluster>>;

/**
 * Several processes over one database in this one, on one travelling clock.
 *
 * @param latency milliseconds that the next statement, or its answer, is on the way
 */
export async function openCluster(
  workspaces: readonly string[],
  latency: (member: string, way: Way) => number = () => 0,
) {
  const clock = createTravellingClock();
  const statements: string[] = [];
  const calls: ((statement: string) => void)[] = [];
  const installation = await openTestInstallation({
    file: ':memory:',
    onStatement(statement) {
      statements.push(statement);
      for (const call of calls) call(statement);
    },
  });
  onTestFinished(() => installation.close());
  let ahead = 0;
  const storeTime = localTime({ now: () => clock.now() + ahead });
  const members: Member[] = [];
  const errors: string[] = [];
  let clockSet = async () => {};
  const deaf = new Set<string>();
  const refusals = new Map<string, (statement: string) => boolean>();
  const logger = { ...silentLogger, error: (_fields: LogFields, message: string) => void errors.push(message) };

  async function join(name: string): Promise<Member> {
    const refused = (statement: string) => refusals.get(name)?.(statement) ?? false;
    const { life, database, after } = createLife(clock, installation, {
      latency: (way) => latency(name, way),
      refused,
      hears: () => !deaf.has(name),
    });
    let takeovers = 0;
    const holder = createPostgresLeaseHolder({
      storeClock: createClockOffset(),
      ...{ database, after, storeTime, address: () => `http://${name}`, logger },
      facts: () => ({ version: 'test', config: '', startedAt: 0, host: name }),
      onClockSet: () => clockSet(),
      onTakeover: (count) => void (takeovers += count),
      elapsed: () => clock.elapsed(),
      // Processes are listed by their ids: in these tests, by their names.
      random: namedFirst(name),
    });
    const member: Member = {
      ...{ name, holder, ...life },
      takeovers: () => takeovers,
      trusts: () => workspaces.filter((workspace) => holder.leaseOf(workspace)?.isTrusted()),
    };
    members.push(member);
    void holder.want(workspaces);
    await clock.advance(0);
    return member;
  }

  return {
    /** `statements` are those that the database ran, and `errors` what members report. */
    ...{ clock, installation, statements, workspaces, join, errors },
    /** From now on the database refuses each statement of this member for which that holds. */
    refuse: (member: string, isRefused: (statement: string) => boolean) => void refusals.set(member, isRefused),
    /** From now on this member never hears whether what it commits was carried out, though it is. */
    loseAnswers: (member: string, isLost: boolean) => void (isLost ? deaf.add(member) : deaf.delete(member)),
    members: () => members as readonly Member[],
    onStatement: (call: (statement: string) => void) => void calls.push(call),
    /** Called by each member that sees that the clock of the database was set. */
    onClockSet: (call: () => Promise<void>) => void (clockSet = call),
    /** Moves the clock of the database, and no other. */
    jumpStore: (ms: number) => void (ahead += ms),
  };
}

function namedFirst(name: string) {
  const random = systemRandom();
  let isFirst = true;
  return {
    ...random,
    uuid() {
      const uuid = isFirst ? name : random.uuid();
      isFirst = false;
      return uuid;
    },
  };
}

/** The path between a process and its database. */
interface Wire {
  latency(way: Way): number;
  refused(statement: string): boolean;
  /** Whether the answer to what was committed arrives. */
  hears(): boolean;
}

/**
 * The clock and the database as a process sees them that may fall asleep, or die, between any two steps; each statement takes
 * its time to get there, and its answer to come back.
 */
function createLife(clock: TravellingClock, installation: Installation, { latency, refused, hears }: Wire) {
  const life = createWakefulness();
  const { whenAwake } = life;
  const after = (ms: number, call: () => void) => clock.after(ms, () => whenAwake(call));
  const onTheWay = (way: Way) =>
    new Promise<void>((resolve) => {
      const ms = latency(way);
      if (ms === 0) whenAwake(resolve);
      else after(ms, resolve);
    });
  async function distantly<Result>(work: () => Promise<Result>): Promise<Result> {
    await onTheWay('there');
    const result = await work();
    await onTheWay('back');
    return result;
  }
  const connection: DatabaseConnection = {
    executeQuery: <Row>(statement: CompiledQuery) =>
      distantly(async () => {
        if (refused(statement.sql)) throw new Error(`refused: ${statement.sql}`);
        return installation.query.executeQuery(statement) as Promise<QueryResult<Row>>;
      }),
    streamQuery: () => {
      throw new Error('nothing is streamed here');
    },
  };
  const database: Pick<Installation, 'query' | 'commit'> = {
    query: kyselyOver<Schema>(connection, ON_POSTGRES ? 'postgres' : 'sqlite'),
    commit: (work) =>
      distantly(async () => {
        const result = await installation.commit(work);
        if (!hears()) throw new Error('the connection was cut');
        return result;
      }),
  };
  return { database, after, life };
}

/** Commits as a stage does that began with the lease it has had since: throws where the fence keeps it out. */
export async function commitUnder(
  { commit }: Pick<Installation, 'commit'>,
  fence: ((transaction: Parameters<Parameters<typeof commit>[0]>[0]) => Promise<void>) | undefined,
  work: (transaction: Parameters<Parameters<typeof commit>[0]>[0]) => Promise<void>,
): Promise<void> {
  await commit(async (transaction) => {
    await fence?.(transaction);
    await work(transaction);
  });
}

/** Owner of a workspace by the rows, and the number of owners so far. */
export function leaseRow(
  { query }: Installation,
  workspace: string,
): Promise<Pick<Schema['leases'], 'epoch' | 'incarnation'>> {
  return query
    .selectFrom('leases')
    .innerJoin('workspaces', 'workspaces.id', 'leases.workspace')
    .select(['leases.epoch', 'leases.incarnation'])
    .where('workspaces.name', '=', workspace)
    .executeTakeFirstOrThrow();
}
