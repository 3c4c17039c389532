import type { Finding } from '../../connectors/connector.ts';
import type { ServerFacts } from '../../platform/database/database-types.ts';
import { counted } from '../../platform/lib/quantities.ts';

const SUBJECT = 'postgres';

/** The first version that has everything worksync uses. */
const OLDEST_POSTGRES = 14;
/** The factor of a major version in the server's own number: 18.4 is 180004. */
const MAJOR = 10_000;
/** Milliseconds of latency that are slow, because a webhook runs several statements one after the other. */
const SLOW = 20;

/** A finding before its subject is added, and whether the facts support it. */
type Row = Omit<Finding, 'subject'> & { readonly if: boolean };

/**
 * Turns the facts about a PostgreSQL server into findings, each with a remedy if something is wrong.
 *
 * @param place the address without its password
 */
export function judgeServer(place: string, facts: ServerFacts): Finding[] {
  const rows = [...identityRows(place, facts), ...durabilityRows(facts), ...reachRows(facts)];
  return rows.filter((row) => row.if).map(({ if: _if, ...finding }) => ({ ...finding, subject: SUBJECT }));
}

function identityRows(place: string, facts: ServerFacts): readonly Row[] {
  const { version, encoding, isStandby, settings, isSuperuser, mayCreate, foreign } = facts;
  const isOld = version < OLDEST_POSTGRES * MAJOR;
  return [
    {
      if: true,
      level: isOld ? 'error' : 'ok',
      message: `${place}: PostgreSQL ${Math.floor(version / MAJOR)}.${version % MAJOR}`,
      ...(isOld && { hint: `Upgrade it to PostgreSQL ${OLDEST_POSTGRES} or later.` }),
    },
    {
      if: encoding !== 'UTF8',
      level: 'error',
      message: `the database stores texts as ${encoding}, which cannot hold all of them`,
      hint: 'Make a database with ENCODING \'UTF8\' (and TEMPLATE template0), and copy the rows there with "worksync store copy".',
    },
    {
      if: isStandby,
      level: 'error',
      message: 'it is a standby, and takes no writes',
      hint: 'Name the primary in the address, or what always leads to the primary.',
    },
    {
      if: !isStandby && settings['default_transaction_read_only'] === 'on',
      level: 'error',
      message: 'default_transaction_read_only is on: it takes no writes',
      hint: 'Run: ALTER ROLE <role> SET default_transaction_read_only = off; look at ALTER DATABASE and the server too.',
    },
    {
      if: isSuperuser,
      level: 'warning',
      message: 'the role is a superuser, and worksync needs no more than a schema of its own',
      hint: "Run: CREATE ROLE worksync LOGIN PASSWORD '…'; CREATE SCHEMA worksync AUTHORIZATION worksync; and name that role in the address.",
    },
    {
      if: !mayCreate,
      level: 'warning',
      message: 'the role may not make tables in its schema: the next upgrade of worksync would fail',
      hint: 'Run: ALTER SCHEMA <schema> OWNER TO <role>;',
    },
    {
      if: foreign.length > 0,
      level: 'warning',
      message: `another role owns ${counted(foreign.length, 'table')} of the schema (${foreign[0]}): the next upgrade of worksync would fail`,
      hint: 'Run for each of them: ALTER TABLE <table> OWNER TO <role>;',
    },
  ];
}

/** Whether a webhook that was answered with 2xx survives a crash of the server, or the promotion of a standby. */
function durabilityRows({ settings, standbys, isStandby }: ServerFacts): readonly Row[] {
  const isOff = (name: string) => settings[name] === 'off';
  const names = settings['synchronous_standby_names'] ?? '';
  const commit = settings['synchronous_commit'] ?? 'on';
  const waits = commit !== 'local' && commit !== 'off';
  const onEverywhere = 'Set synchronous_commit = on for the server, the database and the role.';
  return [
    {
      if: isOff('fsync'),
      level: 'error',
      message: 'fsync is off: a crash of its machine can damage the database, and lose webhooks that were acknowledged',
      hint: 'Set fsync = on in its configuration.',
    },
    {
      if: isOff('synchronous_commit'),
      level: 'error',
      message: 'synchronous_commit is off: a crash of the server loses webhooks that were acknowledged',
      hint: onEverywhere,
    },
    {
      if: isOff('full_page_writes'),
      level: 'warning',
      message: 'full_page_writes is off: a power failure can damage pages that were half written',
      hint: 'Set full_page_writes = on, unless its file system never writes half a page.',
    },
    {
      if: !['fsync', 'synchronous_commit', 'full_page_writes'].some(isOff),
      level: 'ok',
      message: 'what it has committed is on its disk',
    },
    {
      if: !isStandby && names !== '' && !waits,
      level: 'warning',
      message: `synchronous_commit is ${commit}, so nothing waits for the standbys: a promotion loses webhooks that were acknowledged`,
      hint: onEverywhere,
    },
    {
      if: !isStandby && names !== '' && waits && standbys === 0,
      level: 'warning',
      message: 'it waits for a standby at each commit, and none is connected: nothing is stored meanwhile',
      hint: 'Start the standby, or take it out of synchronous_standby_names.',
    },
    {
      if: !isStandby && names === '' && standbys > 0,
      level: 'warning',
      message: `it has ${counted(standbys, 'standby')} and waits for none at a commit: a promotion can lose webhooks that were acknowledged`,
      hint: 'Name at least one of them in synchronous_standby_names, or do without promotions.',
    },
  ];
}

function reachRows({ most, free, wanted, latency, encrypted, isLocal }: ServerFacts): readonly Row[] {
  const isFree = most >= wanted && free >= wanted;
  return [
    {
      if: true,
      level: isFree ? 'ok' : most < wanted ? 'error' : 'warning',
      message: `${free} of ${most} connections are free; each worksync takes up to ${wanted}`,
      ...(!isFree && {
        hint: 'Raise max_connections, or the CONNECTION LIMIT of the role or the database; or lower "connections" in the address.',
      }),
    },
    {
      if: true,
      level: latency <= SLOW ? 'ok' : 'warning',
      message: `a statement takes ${latency.toFixed(1)} ms`,
      ...(latency > SLOW && { hint: 'Run worksync near its PostgreSQL: in the same network, or zone.' }),
    },
    {
      if: !encrypted && !isLocal,
      level: 'warning',
      message: 'the connection is not encrypted: others in the network can read the rows, and the password',
      hint: 'Add sslmode=verify-full to the address, and sslrootcert=<file> where a CA of your own signed its certificate.',
    },
  ];
}
