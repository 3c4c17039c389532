import { addAudit } from '../../src/store/audit-rows.ts';
import type { Store } from '../../src/store/database.ts';
import type { Installation } from '../../src/store/installation.ts';

const DAY = 24 * 60 * 60_000;

/** Days after which what somebody did, how the quota was used, and deliveries are of no use any more. */
const AUDIT = 400;
const QUOTA_USE = 8;
export const DELIVERIES = 365;

/** Old rows, by how many days they are old: one that is to go, and one that is to stay. */
const around = (days: number) => [days + 1, days - 1];

/** What somebody did long ago. */
export async function addOldAudit({ query }: Pick<Installation, 'query'>, now: number): Promise<void> {
  const asked = { workspace: 'test', actor: 'ada', action: 'retry', count: 1, outcome: 'done', details: null } as const;
  for (const days of around(AUDIT))
    await addAudit(query, { ...asked, at: now - days * DAY, subject: `${days} days ago` });
}

/** What a workspace has that has been there for a year. */
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

type Rows = (text: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;

/** Old rows that are there no longer, or still. */
export async function oldRowsWrong(rows: Rows): Promise<string[]> {
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
