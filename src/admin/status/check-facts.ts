import type { Finding } from '../../connectors/connector.ts';
import { describeBuild } from '../../model/build.ts';
import { CODES, hintOf } from '../../model/errors.ts';
import type { DatabaseFault } from '../../platform/database/database-fault.ts';
import type { ServerFacts } from '../../platform/database/database-types.ts';
import type { Skew } from '../../platform/http/http-client.ts';
import { isTooOld, OLDEST_NODE } from '../../platform/lib/oldest-node.ts';
import { bytes, counted, duration, MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { QuotaSnapshot } from '../../sync/quota/throttle.ts';
import { keyRemedy } from '../../workspace-api/typed-client.ts';

/** Turns the facts that `check` collected into findings, each with a remedy if something is wrong. */

const SKEW_WARNING = 30_000;
const SKEW_ERROR = 5 * 60_000;

/** If one server differs from ours and from all others, its clock is wrong; otherwise ours is. */
export function judgeClock(skews: readonly Skew[]): Finding[] {
  const subject = 'clock';
  const wrong = skews.filter(({ ahead }) => Math.abs(ahead) > SKEW_WARNING);
  if (skews.length === 0) return [];
  if (wrong.length === 0) return [{ level: 'ok', subject, message: `agrees with ${counted(skews.length, 'server')}` }];
  const isOurs = wrong.length * 2 >= skews.length;
  const hint = isOurs
    ? 'Set the clock of this machine by NTP ("timedatectl set-ntp true"): tokens and signatures depend on it.'
    : 'Other servers agree with our clock: tell the operator of this server.';
  return wrong.map(({ server, ahead }) => ({
    level: isOurs && Math.abs(ahead) > SKEW_ERROR ? 'error' : 'warning',
    subject,
    message: `ours is ${duration(Math.abs(ahead))} ${ahead > 0 ? 'behind' : 'ahead of'} the clock of ${server}`,
    hint,
  }));
}

const LEAST_FREE = 100 * MEBIBYTE;
const LITTLE_FREE = 1024 * MEBIBYTE;
/** Backups and checks copy the database, and its log grows beside it. */
const COPIES = 3;

interface Space {
  readonly folder: string;
  /** Bytes that this user may still write there. */
  readonly free: number;
  /** Bytes of the database; zero where it is not open. */
  readonly database: number;
}

export function judgeDisk({ folder, free, database }: Space): Finding {
  const subject = 'disk';
  const message = `${bytes(free)} free at ${folder}`;
  const wanted = Math.max(LITTLE_FREE, COPIES * database);
  if (free >= wanted) return { level: 'ok', subject, message };
  const hint = `Free space on this volume, or move the data folder to a larger one: at least ${bytes(wanted)} should be free.`;
  return { level: free < LEAST_FREE ? 'error' : 'warning', subject, message, hint };
}

/** @param shared the file system of the data folder, where machines share it */
export function judgeFileSystem(folder: string, shared: string | undefined): Finding[] {
  if (shared === undefined) return [];
  const message = `${folder} lies on ${shared}: SQLite cannot rely on its locks, and two processes may damage the database`;
  const hint =
    'Move the data folder to a local disk or a block device, or keep the rows in PostgreSQL ("worksync store copy").';
  return [{ level: 'warning', subject: 'disk', message, hint }];
}

interface KnownDatabase {
  readonly file: string;
  /** Bytes, and those of a log that another program keeps from being emptied. */
  readonly size: number;
  readonly keptLog: number | undefined;
  readonly fault: DatabaseFault | undefined;
}

export function judgeDatabase({ file, size, keptLog, fault }: KnownDatabase): Finding {
  const subject = 'database';
  if (!fault && keptLog !== undefined) {
    const message = `${file}: another program reads it on and on, and its log has grown to ${bytes(keptLog)}`;
    return { level: 'warning', subject, message, hint: `End that program: "fuser ${file}" names it.` };
  }
  if (!fault) return { level: 'ok', subject, message: `${file}: ${bytes(size)}, no damage known` };
  const hint = fault.hint ?? CODES[fault.code].hint;
  return { level: 'error', subject, message: `${fault.code}: ${fault.message}`, hint };
}

export function judgeVersion(version: string, node: string): Finding {
  const subject = 'version';
  const message = `worksync ${describeBuild(version)} on Node ${node}`;
  if (!isTooOld(node)) return { level: 'ok', subject, message };
  return { level: 'error', subject, message, hint: `Run it on Node ${OLDEST_NODE} or later.` };
}

type Quota = Pick<QuotaSnapshot, 'long' | 'burst' | 'paused' | 'nextForPeopleAt'>;

export function judgeQuota(subject: string, { long, burst, paused, nextForPeopleAt }: Quota, now: number): Finding {
  const windows = [long, burst].filter(({ cap }) => cap !== null);
  const left = windows.map(({ cap, used, window }) => ({ left: Math.max(0, (cap ?? 0) - used), cap, window }));
  const message =
    left.length === 0
      ? 'quota: no limit'
      : `quota: ${left.map((each) => `${each.left} of ${each.cap} requests left in ${duration(each.window)}`).join(', ')}`;
  if (paused) {
    const pause = `nothing is sent for ${duration(Math.max(0, paused.until - now))}: ${paused.reason}`;
    return {
      level: 'warning',
      subject,
      message: `${message}; ${pause}`,
      hint: keyRemedy(paused.code) ?? hintOf(paused.code) ?? 'worksync goes on by itself then.',
    };
  }
  if (left.every((each) => each.left > 0)) return { level: 'ok', subject, message };
  const hint = `Wait ${duration(Math.max(0, nextForPeopleAt - now))}, or see who uses it: "worksync quota --by caller".`;
  return { level: 'warning', subject, message, hint };
}

const RECENT = 60 * 60_000;

/** Two daemons with one workspace do not know of each other; together they exceed the quota. */
export function judgeOthers(subject: string, last: QuotaSnapshot['lastRefusal'], now: number): Finding[] {
  const others = Math.max(last?.othersLong ?? 0, last?.othersBurst ?? 0);
  if (!last || others === 0 || now - last.at > RECENT) return [];
  const message = `others use this workspace: at least ${counted(others, 'request')} were theirs when it refused one of ours ${duration(now - last.at)} ago`;
  const hint =
    'If a second worksync serves this workspace, stop it. Give jobs and scripts the gateway instead of a key; "worksync quota --by caller" shows who uses what.';
  return [{ level: 'warning', subject, message, hint }];
}

interface Arrivals {
  readonly takesWebhooks: boolean;
  /** Whether polls read the changes that no webhook reported. */
  readonly polls: boolean;
  readonly lastWebhookAt: number | null;
  readonly lastRefused: { readonly at: number; readonly code: string } | null;
}

export function judgeArrivals(
  { takesWebhooks, polls, lastWebhookAt, lastRefused }: Arrivals,
  now: number,
): Omit<Finding, 'subject'> {
  if (!takesWebhooks && lastRefused === null) return { level: 'ok', message: 'takes no webhooks' };
  const last = lastWebhookAt === null ? 'no recent webhook' : `last webhook ${duration(now - lastWebhookAt)} ago`;
  if (lastRefused && lastRefused.at > (lastWebhookAt ?? 0)) {
    const message = `${last}; one was refused ${duration(now - lastRefused.at)} ago: ${lastRefused.code}`;
    const hint = hintOf(lastRefused.code) ?? '"worksync deliveries refused" says what it was.';
    return { level: 'warning', message, hint };
  }
  if (lastWebhookAt !== null || !takesWebhooks || polls) return { level: 'ok', message: last };
  const hint = 'Let the vendor send one, and see "worksync deliveries refused" if it does not arrive.';
  return { level: 'warning', message: last, hint };
}

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
