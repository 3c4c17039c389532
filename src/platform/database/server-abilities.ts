import pg from 'pg';
import type { FaultWatch } from './database-fault.ts';
import type { ServerAbilities, ServerFacts, ServerTime } from './database-types.ts';
import { isLocal, type PostgresAddress } from './postgres-address.ts';
import { clientWithTls } from './postgres-driver.ts';

/** The timeline changes with each promotion, after which the clock may be that of another machine. */
const TIME = `select extract(epoch from clock_timestamp())::float8 * 1000 as now,
  left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as clock`;

/** A query that a standby answers too. */
const NOW = 'select extract(epoch from clock_timestamp())::float8 * 1000 as now';

const SETTINGS = [
  'synchronous_commit',
  'synchronous_standby_names',
  'fsync',
  'full_page_writes',
  'default_transaction_read_only',
];

/** Each limit of connections, and the number that counts in it, also for a role that may not see the sessions of others. */
const LIMITS = `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
      - coalesce(current_setting('reserved_connections', true)::int, 0) as most,
    (select sum(numbackends)::int from pg_stat_database) as taken
  union all select rolconnlimit, (select count(*)::int from pg_stat_activity where usesysid = pg_roles.oid)
    from pg_roles where rolname = current_user and rolconnlimit >= 0
  union all select datconnlimit, (select numbackends from pg_stat_database where datid = pg_database.oid)
    from pg_database where datname = current_database() and datconnlimit >= 0`;

const FACTS = `select current_setting('server_version_num')::int as version,
  (select json_object_agg(name, setting) from pg_settings where name = any ($1)) as settings,
  current_setting('server_encoding') as encoding,
  coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted,
  pg_is_in_recovery() as "isStandby",
  (select min(most) from (${LIMITS}) as limits) as most,
  (select greatest(min(most - taken), 0) from (${LIMITS}) as limits) as free,
  current_setting('is_superuser') = 'on' as "isSuperuser",
  has_schema_privilege(current_schema(), 'CREATE') as "mayCreate",
  (select coalesce(json_agg(relname order by relname), '[]') from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'r' and not pg_has_role(relowner, 'USAGE')) as foreign,
  (select count(*)::int from pg_stat_replication) as standbys`;

/** Number of measurements, of which the fastest counts: the others waited for a new connection, or for the machine. */
const TRIES = 3;

/** Connections beside those for reads: one writes, one renews leases, one receives signals. */
const MORE_CONNECTIONS = 3;

type QueriedFacts = Omit<ServerFacts, 'latency' | 'ahead' | 'isLocal' | 'wanted'>;

export function serverAbilities(
  address: PostgresAddress,
  readers: pg.Pool,
  watch: FaultWatch,
): Omit<ServerAbilities, 'pending'> & { close(): Promise<void> } {
  const listeners = new Set<() => Promise<void>>();

  async function query<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row> {
    const { rows } = await watch.meanwhile(() => readers.query<Row>(sql, [...values]));
    return rows[0] as Row;
  }

  return {
    time: () => query<ServerTime>(TIME),
    async notify(channel, payload) {
      await query('select pg_notify($1, $2)', [channel, payload]);
    },
    async facts() {
      const answers: Pick<ServerFacts, 'latency' | 'ahead'>[] = [];
      for (let tries = 0; tries < TRIES; tries++) {
        const began = { elapsed: performance.now(), wall: Date.now() };
        const { now } = await query<Pick<ServerTime, 'now'>>(NOW);
        answers.push({ latency: performance.now() - began.elapsed, ahead: now - (began.wall + Date.now()) / 2 });
      }
      const [fastest] = answers.sort((one, other) => one.latency - other.latency);
      return {
        ...(await query<QueriedFacts>(FACTS, [SETTINGS])),
        isLocal: isLocal(address.connection.connectionString ?? ''),
        wanted: address.connections + MORE_CONNECTIONS,
        ...(fastest as (typeof answers)[number]),
      };
    },
    async listen(channel, onPayload, onGap) {
      const end = listenOn(address, channel, onPayload, onGap);
      const once = async () => {
        listeners.delete(once);
        await end();
      };
      listeners.add(once);
      return once;
    },
    async close() {
      await Promise.all([...listeners].map((end) => end()));
    },
  };
}

/** Pauses before it reconnects, milliseconds. */
const SHORTEST_PAUSE = 200;
const LONGEST_PAUSE = 5_000;

/** Opens one connection of its own for notifications. */
function listenOn(
  address: PostgresAddress,
  channel: string,
  onPayload: (payload: string) => void,
  onGap: () => void,
): () => Promise<void> {
  const Client = clientWithTls(address);
  let isEnded = false;
  let client: pg.Client | undefined;
  let timer: NodeJS.Timeout | undefined;
  let pause = SHORTEST_PAUSE;

  function reconnect(): void {
    if (isEnded || timer) return;
    timer = setTimeout(() => {
      timer = undefined;
      void connect();
    }, pause);
    pause = Math.min(LONGEST_PAUSE, pause * 2);
  }

  async function connect(): Promise<void> {
    const own = new Client({ ...address.connection, keepAlive: true, application_name: 'worksync listens' });
    client = own;
    own.on('notification', ({ payload = '' }) => onPayload(payload));
    own.on('error', () => undefined);
    own.on('end', reconnect);
    try {
      await own.connect();
      if (isEnded) {
        await own.end();
        return;
      }
      await own.query(`listen ${pg.escapeIdentifier(channel)}`);
      pause = SHORTEST_PAUSE;
      onGap();
    } catch {
      await own.end().catch(() => undefined);
      reconnect();
    }
  }

  void connect();
  return async () => {
    isEnded = true;
    clearTimeout(timer);
    await client?.end().catch(() => undefined);
  };
}
