import { type RawBuilder, sql } from 'kysely';
import { type Dialect, textIn } from '../../platform/database/database-schema.ts';

/** The queue of a change in the previous version, which does not tell links and status changes apart. */
export const QUEUE = sql`case when lane = 'backfill' then 'backfill' when kind = 'read' then 'read' when weight > 1 then 'finished' else 'live' end`;

/** The queue of a change; see `next-change.ts`. */
export const SEND_QUEUE = sql`case
  when lane = 'backfill' then 'backfill'
  when kind = 'read' then 'read'
  when lane = 'status' then 'status'
  when lane = 'mirror' then case when weight > 1 then 'finished_mirror' else 'mirror' end
  when weight > 1 then 'finished_link'
  else 'link' end`;

/** In `waiting`, deliveries of first imports have no time, because nobody waits for them. */
export const IMPORTED = sql`case
  when waiting like '%"at":null%' and replace(waiting, '"at":null', '') not like '%"at":%' then 1
  else 0 end`;

/** The prefix and the number of a task key: `BUG-` and 12 of `BUG-12`. */
export const PREFIX = sql`rtrim(key, '0123456789')`;
const DIGITS = sql`substr(key, length(${PREFIX}) + 1)`;

/** Reads the empty text as 0, and too many digits as the highest number, as SQLite does. PostgreSQL needs an expression for that. */
export function numberOfKey(dialect: Dialect): RawBuilder<unknown> {
  return dialect === 'sqlite'
    ? sql`cast(${DIGITS} as integer)`
    : sql`least(('0' || ${DIGITS})::numeric, 9223372036854775807)::bigint`;
}

export function urlOfItem(dialect: Dialect): RawBuilder<string | null> {
  return textIn(dialect, 'fields', ['item', 'url']);
}

/** Returns `acme/api#12` for a pull request and for an issue whose identifier is a number; otherwise the identifier: `ENG-123`. */
export function nameOfItem(dialect: Dialect): RawBuilder<string | null> {
  const [identifier, repository, container] = ['identifier', 'repoName', 'containerName'].map((field) =>
    textIn(dialect, 'fields', ['item', field]),
  );
  return sql`case
  when kind = 'pull_request' then ${repository} || '#' || ${identifier}
  when ${identifier} like '#%' then ${container} || ${identifier}
  else ${identifier} end`;
}

/** Why the work of a task was merged and the task is unfinished: in the known state of a task update. */
export function reasonUnfinished(dialect: Dialect): RawBuilder<string | null> {
  return sql`case when kind = 'task_update' then ${textIn(dialect, 'known', ['unfinished'])} end`;
}
