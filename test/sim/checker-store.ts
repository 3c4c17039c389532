import { sql } from 'kysely';
import type { Status } from '../../src/admin/status/status.ts';
import { addAudit } from '../../src/store/access/audit-rows.ts';
import type { Installation } from '../../src/store/installation/installation.ts';
import type { Store } from '../../src/store/workspace-scope.ts';
import type { Event, Look } from './history.ts';
import { WORKSPACE } from './network.ts';

type Row = Readonly<Record<string, unknown>>;

/**
 * Returns wrong facts in worksync's own database once everything is settled. Reads the tables without the program.
 *
 * @param now the wall clock, where it was never set
 * @param lost deliveries that may be there as nobody can read them: an older backup was put back
 */
export async function complaintsAbout(
  { query }: Store,
  look: Look,
  now: number | undefined,
  lost: ReadonlySet<string>,
): Promise<string[]> {
  const rows = async (text: string) =>
    (await sql<Row>`${sql.raw(text.replaceAll(':w', String(query.workspace)))}`.execute(query.whole)).rows;
  return [
    ...(await countsWrong(rows)),
    ...(await quarantined(rows, lost)),
    ...(await leftovers(rows)),
    ...(await beliefsWrong(rows, look)),
    ...(await itemsWrong(rows, look)),
    ...(now === undefined ? [] : await tooOld(rows, now)),
  ];
}

type Rows = (text: string) => Promise<readonly Row[]>;

const COUNTED = { items: [], tasks: [], fetches: ['connection'], entities: ['kind', 'hand'] } as const;

async function countsWrong(rows: Rows): Promise<string[]> {
  const found: string[] = [];
  for (const [table, columns] of Object.entries(COUNTED)) {
    const real = await rows(
      `select ${[...columns, 'count(*) as n'].join()} from ${table} where workspace = :w${columns.length > 0 ? ` group by ${columns.join()}` : ''}`,
    );
    const kept = await rows(
      `select class, count from counts where workspace = :w and counted = '${table}' and count > 0`,
    );
    const total = (all: readonly Row[], name: string) => all.reduce((sum, row) => sum + Number(row[name]), 0);
    if (total(real, 'n') !== total(kept, 'count'))
      found.push(`store: it counts ${total(kept, 'count')} ${table} and has ${total(real, 'n')}`);
  }
  return found;
}

async function quarantined(rows: Rows, lost: ReadonlySet<string>): Promise<string[]> {
  const text = `select delivery_key as key, connection || ' ' || event || ' ' || coalesce(reason, '') as name from inbox where workspace = :w and state = 'quarantined'`;
  const found = (await rows(text)).filter(({ key }) => !lost.has(String(key)));
  return found.map(({ name }) => `store: a delivery is quarantined: ${String(name)}`);
}

/** Nothing is left over of work that is done; the links of an item that is gone stay, wanted or not. */
async function leftovers(rows: Rows): Promise<string[]> {
  const left: Readonly<Record<string, string>> = {
    'a fetch is left': 'select reference as name from fetches where workspace = :w',
    'a poll is in error': 'select error as name from polls where workspace = :w and error is not null',
    'a request has no end': `select started || ' ' || lane as name from ledger where workspace = :w and completed is null`,
    'a delivery that has ended does not say when': `select delivery_key as name from inbox where workspace = :w and state <> 'pending' and settled_at is null`,
    'a delivery that waits has ended': `select delivery_key as name from inbox where workspace = :w and state = 'pending' and settled_at is not null`,
    'a poll has no end': `select connection || ' ' || unit as name from polls where workspace = :w and unit <> '' and (completed_at is null or walk is not null)`,
    'somebody names a task, and is nobody':
      'select item_key as name from mentions where workspace = :w and not exists (select 1 from items where items.workspace = :w and key = item_key)',
    'somebody has a name, and is nobody':
      'select item_key as name from item_names where workspace = :w and not exists (select 1 from items where items.workspace = :w and key = item_key)',
    'what is wanted is neither there nor on its way': `select entity as name from entities where workspace = :w and kind = 'pull_request' and desired is not null and known is null and hand is null and not exists (select 1 from outbox where outbox.workspace = :w and outbox.entity = entities.entity)`,
    'what nobody wants is there, and nobody removes it': `select entity as name from entities where workspace = :w and kind = 'link' and desired is null and known is not null and hand is null and not exists (select 1 from outbox where outbox.workspace = :w and outbox.entity = entities.entity) and not exists (select 1 from items where items.workspace = :w and items.key = entities.item_key and items.gone)`,
    'a link, a task or a mark is left that nobody wants, and that is not there': `select entity as name from entities where workspace = :w and kind <> 'pull_request' and desired is null and known is null and hand is null`,
    'a delivery lost its body': `select delivery_key as name from inbox where workspace = :w and state = 'pending' and body is null`,
  };
  const found: string[] = [];
  for (const [what, text] of Object.entries(left))
    for (const { name } of await rows(text)) found.push(`store: ${what}: ${String(name)}`);
  return found;
}

/** Returns known states that differ from the workspace. */
async function beliefsWrong(rows: Rows, { records, links, tasks }: Look): Promise<string[]> {
  const found: string[] = [];
  const entities = await rows(
    'select entity, kind, item_key, task_id, desired, known, remote_id from entities where workspace = :w',
  );
  const known = entities.filter((row) => row['known'] !== null);
  const named = new Map(
    records.map((record) => [
      `pull_request:${[record['provider'], record['repoId'], record['identifier']].join('/')}`,
      record,
    ]),
  );
  for (const { entity, known: text } of known.filter(({ kind }) => kind === 'pull_request')) {
    const record = named.get(String(entity));
    if (!record) found.push(`store: it knows of ${String(entity)}, which is not there`);
    // Which tasks a record names follows from the links.
    const { taskIds: _, ...believed } = JSON.parse(String(text)) as Row;
    for (const [field, value] of Object.entries(believed))
      if (record && field in record && plain(value) !== plain(record[field]))
        found.push(
          `store: it takes ${field} of ${String(entity)} for ${plain(value)}, and it is ${plain(record[field])}`,
        );
  }
  const present = new Set(
    links.flatMap(({ taskId, workItemId, url }) => [`${taskId} ${workItemId}`, `${taskId} ${url}`]),
  );
  for (const { entity, task_id: task, remote_id: id, known: text } of known.filter(({ kind }) => kind === 'link')) {
    // Only the address is known of a link whose answer was lost. A person may have replaced it by an equal link with another id.
    const names = [id, (JSON.parse(String(text)) as Row)['url']];
    if (!names.some((name) => present.has(`${String(task)} ${String(name)}`)))
      found.push(`store: it knows of ${String(entity)}, which is not there`);
  }
  const keys = new Map(tasks.map(({ taskId, key }) => [taskId, key]));
  for (const { task_id: id, key } of await rows('select task_id, key from tasks where workspace = :w'))
    if (keys.get(String(id)) !== key) found.push(`store: it knows of task ${String(key)}, which is not there`);
  return found;
}

/** It holds the newest state of each item. */
async function itemsWrong(rows: Rows, { pulls, issues }: Look): Promise<string[]> {
  const items = await rows('select key, gone, fields from items where workspace = :w');
  const held = items.map(
    ({ key, gone, fields }) =>
      ({ ...(JSON.parse(String(fields)) as { item: Row }).item, key, gone: Boolean(gone) }) as Row,
  );
  const titles = new Set(held.map((item) => `${String(item['identifier'])} ${String(item['title'])}`));
  const wrongPulls = pulls
    .filter(({ record, title, isUnheard }) => !isUnheard && !titles.has(`${String(record['identifier'])} ${title}`))
    .map(({ title }) => `store: no item is called "${title}"`);
  const byKey = new Map(held.map((item) => [item['key'], item]));
  const wrongIssues = issues
    .filter(({ key, title, isWanted }) => isWanted && byKey.get(key)?.['title'] !== title)
    .map(({ key, title }) => `store: item ${key} is not called "${title}"`);
  return [...wrongPulls, ...wrongIssues];
}

/** A sweep that failed is made again an hour later, give or take a tenth, and takes its time. */
const SWEPT_AGAIN = 1.3 * 3_600_000;
/** Half an hour is configured, and each hour it is looked for what is older. */
const KEPT_FOR = 1.6 * 3_600_000;

async function tooOld(rows: Rows, now: number): Promise<string[]> {
  const before = now - KEPT_FOR;
  const bodies = await rows(
    `select count(*) as n from inbox where workspace = :w and body is not null and settled_at < ${before} and state <> 'quarantined'`,
  );
  const requests = await rows(`select count(*) as n from requests where workspace = :w and completed_at < ${before}`);
  const sweeps = await rows(
    `select count(*) as n from sweeps where workspace = :w and error is not null and failed_at < ${now - SWEPT_AGAIN}`,
  );
  const found = { bodies, requests, 'failures of sweeps': sweeps };
  const kept = Object.entries(found).filter(([, [row]]) => Number(row?.['n']) > 0);
  return [...kept.map(([what]) => `store: ${what} are kept for too long`), ...(await oldRowsWrong(rows))];
}

/** Lists in any order, and nothing for what is empty. */
function plain(value: unknown): string {
  if (Array.isArray(value))
    return value.length === 0 ? 'null' : JSON.stringify(value.map((each) => JSON.stringify(each)).toSorted());
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value)) return String(Date.parse(value));
  return value === undefined || value === '' ? 'null' : JSON.stringify(value);
}

const LONG = 15 * 60_000;

interface Told {
  readonly name: string;
  /** Whether this process reports the workspace alone: over this network, replicas cannot query each other. */
  readonly isAlone: boolean;
  /** Whether a delivery may be there that nobody can read: an older backup was put back. */
  readonly isBroken: boolean;
  /** Whether no clock was ever set: then the requests of a window can be counted. */
  readonly isClockTrue: boolean;
}

export function statusWrong(
  { ready, workspaces, broken, shared }: Status,
  events: readonly Event[],
  { name, isAlone, isBroken, isClockTrue }: Told,
): string[] {
  const causes = [...workspaces, ...(shared ? [shared] : [])].flatMap((each) => each.causes);
  // A write that a vendor refused stays refused until a start.
  const right = ['replica_silent', 'writes_refused', ...(isBroken ? ['deliveries_quarantined'] : [])];
  const wrong = causes.filter(({ code }) => !right.includes(code)).map(({ code, message }) => `${code}: ${message}`);
  if (!ready || broken.length > 0 || workspaces.some(({ state }) => state.kind !== 'running')) wrong.push('it waits');
  const own = workspaces.find((each) => each.name === 'test');
  if (isAlone && !own) wrong.push('it does not tell of the workspace');
  return [
    ...wrong.map((text) => `status: nothing is wrong, and ${name} tells: ${text}`),
    ...(own && isClockTrue ? usedWrong(own.quota.long.used, events, name) : []),
  ];
}

/** It counts each request of its own at least. */
function usedWrong(used: number, events: readonly Event[], name: string): string[] {
  const since = (events.at(-1)?.at ?? 0) - LONG;
  const came = events.filter(
    (event) =>
      event.what === 'arrived' && event.server === WORKSPACE && event.from.startsWith('process-') && event.at > since,
  );
  return used >= came.length
    ? []
    : [`status: ${name} says that ${used} requests count, and ${came.length} came within the window`];
}

const DAY = 24 * 60 * 60_000;

/** Days after which what somebody did, how the quota was used, and deliveries are of no use any more. */
const AUDIT = 400;
const QUOTA_USE = 8;
export const DELIVERIES = 365;

/** Old rows, by how many days they are old: one that is to go, and one that is to stay. */
const around = (days: number) => [days + 1, days - 1];

export async function addOldAudit({ query }: Pick<Installation, 'query'>, now: number): Promise<void> {
  const asked = { workspace: 'test', actor: 'ada', action: 'retry', count: 1, outcome: 'done', details: null } as const;
  for (const days of around(AUDIT))
    await addAudit(query, { ...asked, at: now - days * DAY, subject: `${days} days ago` });
}

export async function addOldRows({ commit }: Pick<Store, 'commit'>, now: number): Promise<void> {
  const ago = (days: number) => ({ name: `${days} days ago`, at: now - days * DAY });
  const uses = around(QUOTA_USE).map(ago);
  const deliveries = around(DELIVERIES).map(ago);
  const about = {
    connection: 'github',
    source: 'webhook',
    event: 'pull_request',
    body: null,
    state: 'applied',
  } as const;
  await commit(async (query) => {
    for (const { name, at } of uses)
      await query.insertInto('quota_use').values({ since: at, caller: name, requests: 1, refused: 0 }).execute();
    for (const { name, at } of deliveries)
      await query
        .insertInto('inbox')
        .values({ ...about, delivery_key: name, received_at: at, settled_at: at })
        .execute();
  });
}

async function oldRowsWrong(rows: Rows): Promise<string[]> {
  const left = {
    'the audit': [AUDIT, `select count(*) as n from audit where subject = '%d days ago'`],
    'the use of the quota': [
      QUOTA_USE,
      `select count(*) as n from quota_use where workspace = :w and caller = '%d days ago'`,
    ],
    deliveries: [DELIVERIES, `select count(*) as n from inbox where workspace = :w and delivery_key = '%d days ago'`],
  } as const;
  const found: string[] = [];
  for (const [what, [days, text]] of Object.entries(left)) {
    const counts = [];
    for (const each of around(days)) counts.push(Number((await rows(text.replace('%d', String(each))))[0]?.['n']));
    if (counts[0] !== 0) found.push(`store: of ${what} a row of ${days + 1} days is kept`);
    if (counts[1] !== 1) found.push(`store: of ${what} the row of ${days - 1} days is gone`);
  }
  return found;
}
