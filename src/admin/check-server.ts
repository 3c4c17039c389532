import type { Finding } from '../connectors/connector.ts';
import type { ServerFacts } from '../platform/database/database-types.ts';
import { counted } from '../platform/lib/quantities.ts';

/** Turns the facts about a PostgreSQL server into findings, each with a remedy if something is wrong. */

const SUBJECT = 'postgres';

/** A finding before its subject is added. */
type PartialFinding = Omit<Finding, 'subject'>;

/** @param place the address without its password */
export function judgeServer(place: string, facts: ServerFacts): Finding[] {
  return [
    ...judgeVersion(place, facts),
    ...judgeWrites(facts),
    ...judgeRights(facts),
    ...judgeDurability(facts),
    ...judgeStandbys(facts),
    ...judgeConnections(facts),
    ...judgeLatency(facts),
    ...judgeWay(facts),
  ].map((finding) => ({ ...finding, subject: SUBJECT }));
}

/** The first version that has everything worksync uses. */
const OLDEST_POSTGRES = 14;
/** The factor of a major version in the server's own number: 18.4 is 180004. */
const MAJOR = 10_000;

function judgeVersion(place: string, { version, encoding }: ServerFacts): PartialFinding[] {
  const message = `${place}: PostgreSQL ${Math.floor(version / MAJOR)}.${version % MAJOR}`;
  const findings: PartialFinding[] =
    version >= OLDEST_POSTGRES * MAJOR
      ? [{ level: 'ok', message }]
      : [{ level: 'error', message, hint: `Upgrade it to PostgreSQL ${OLDEST_POSTGRES} or later.` }];
  if (encoding === 'UTF8') return findings;
  const hint =
    'Make a database with ENCODING \'UTF8\' (and TEMPLATE template0), and copy the rows there with "worksync store copy".';
  return [
    ...findings,
    { level: 'error', message: `the database stores texts as ${encoding}, which cannot hold all of them`, hint },
  ];
}

function judgeWrites({ isStandby, settings }: ServerFacts): PartialFinding[] {
  if (isStandby) {
    const hint = 'Name the primary in the address, or what always leads to the primary.';
    return [{ level: 'error', message: 'it is a standby, and takes no writes', hint }];
  }
  if (settings['default_transaction_read_only'] !== 'on') return [];
  const hint =
    'Run: ALTER ROLE <role> SET default_transaction_read_only = off; look at ALTER DATABASE and the server too.';
  return [{ level: 'error', message: 'default_transaction_read_only is on: it takes no writes', hint }];
}

function judgeRights({ isSuperuser, mayCreate, foreign }: ServerFacts): PartialFinding[] {
  const findings: PartialFinding[] = [];
  if (isSuperuser)
    findings.push({
      level: 'warning',
      message: 'the role is a superuser, and worksync needs no more than a schema of its own',
      hint: "Run: CREATE ROLE worksync LOGIN PASSWORD '…'; CREATE SCHEMA worksync AUTHORIZATION worksync; and name that role in the address.",
    });
  if (!mayCreate)
    findings.push({
      level: 'warning',
      message: 'the role may not make tables in its schema: the next upgrade of worksync would fail',
      hint: 'Run: ALTER SCHEMA <schema> OWNER TO <role>;',
    });
  const [first] = foreign;
  if (first !== undefined)
    findings.push({
      level: 'warning',
      message: `another role owns ${counted(foreign.length, 'table')} of the schema (${first}): the next upgrade of worksync would fail`,
      hint: 'Run for each of them: ALTER TABLE <table> OWNER TO <role>;',
    });
  return findings;
}

/** Whether a webhook that was answered with 2xx survives a crash of the server. */
function judgeDurability({ settings }: ServerFacts): PartialFinding[] {
  const findings: PartialFinding[] = [];
  if (settings['fsync'] === 'off')
    findings.push({
      level: 'error',
      message: 'fsync is off: a crash of its machine can damage the database, and lose webhooks that were acknowledged',
      hint: 'Set fsync = on in its configuration.',
    });
  if (settings['synchronous_commit'] === 'off')
    findings.push({
      level: 'error',
      message: 'synchronous_commit is off: a crash of the server loses webhooks that were acknowledged',
      hint: 'Set synchronous_commit = on for the server, the database and the role.',
    });
  if (settings['full_page_writes'] === 'off')
    findings.push({
      level: 'warning',
      message: 'full_page_writes is off: a power failure can damage pages that were half written',
      hint: 'Set full_page_writes = on, unless its file system never writes half a page.',
    });
  if (findings.length > 0) return findings;
  return [{ level: 'ok', message: 'what it has committed is on its disk' }];
}

function judgeStandbys({ settings, standbys, isStandby }: ServerFacts): PartialFinding[] {
  if (isStandby) return [];
  const names = settings['synchronous_standby_names'] ?? '';
  const commit = settings['synchronous_commit'] ?? 'on';
  if (names !== '' && (commit === 'local' || commit === 'off'))
    return [
      {
        level: 'warning',
        message: `synchronous_commit is ${commit}, so nothing waits for the standbys: a promotion loses webhooks that were acknowledged`,
        hint: 'Set synchronous_commit = on for the server, the database and the role.',
      },
    ];
  if (names !== '' && standbys === 0)
    return [
      {
        level: 'warning',
        message: 'it waits for a standby at each commit, and none is connected: nothing is stored meanwhile',
        hint: 'Start the standby, or take it out of synchronous_standby_names.',
      },
    ];
  if (names === '' && standbys > 0)
    return [
      {
        level: 'warning',
        message: `it has ${counted(standbys, 'standby')} and waits for none at a commit: a promotion can lose webhooks that were acknowledged`,
        hint: 'Name at least one of them in synchronous_standby_names, or do without promotions.',
      },
    ];
  return [];
}

function judgeConnections({ most, free, wanted }: ServerFacts): PartialFinding[] {
  const message = `${free} of ${most} connections are free; each worksync takes up to ${wanted}`;
  const hint =
    'Raise max_connections, or the CONNECTION LIMIT of the role or the database; or lower "connections" in the address.';
  if (most < wanted) return [{ level: 'error', message, hint }];
  return [free < wanted ? { level: 'warning', message, hint } : { level: 'ok', message }];
}

/** Milliseconds of latency that are slow, because a webhook runs several statements one after the other. */
const SLOW = 20;

function judgeLatency({ latency }: ServerFacts): PartialFinding[] {
  const message = `a statement takes ${latency.toFixed(1)} ms`;
  if (latency <= SLOW) return [{ level: 'ok', message }];
  return [{ level: 'warning', message, hint: 'Run worksync near its PostgreSQL: in the same network, or zone.' }];
}

function judgeWay({ encrypted, isLocal }: ServerFacts): PartialFinding[] {
  if (encrypted || isLocal) return [];
  return [
    {
      level: 'warning',
      message: 'the connection is not encrypted: others in the network can read the rows, and the password',
      hint: 'Add sslmode=verify-full to the address, and sslrootcert=<file> where a CA of your own signed its certificate.',
    },
  ];
}
