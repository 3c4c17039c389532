/** A statement of which it is right that it does what others must not, with its reason. The text is whole: with another condition it is another one. */
interface Allowed {
  readonly text: string;
  readonly why: string;
}

/** They write outside of a transaction. */
const ALONE: readonly Allowed[] = [
  {
    text: 'delete from "audit" where "id" in (…)',
    why: 'what is older than anybody asks for is deleted by whoever finds it',
  },
  {
    text: 'delete from "replicas" where "incarnation" = ?',
    why: 'a process that ends removes its own row, and no other is of its incarnation',
  },
  {
    text: 'delete from "replicas" where "incarnation" = ? and "expires_at" = ?',
    why: 'it removes a process that has expired only as it was read: one that was renewed since stays',
  },
  {
    text: 'insert into "audit" ("at", "workspace", "actor", "action", "subject", "count", "outcome", "details") values (…) returning "id"',
    why: 'what somebody asks for is on record before it is done, whatever becomes of it',
  },
  {
    text: 'update "audit" set "outcome" = ?, "count" = ?, "details" = ? where "id" = ?',
    why: 'what became of it belongs to no workspace',
  },
  {
    text: 'insert into "inbox" ("workspace", "connection", "delivery_key", "source", "event", "received_at", "state", "unpacked_length", "body") values (…) on conflict ("workspace", "connection", "delivery_key") do nothing returning "id", "workspace", "connection", "delivery_key"',
    why: 'deliveries are taken whoever owns the workspace',
  },
  {
    text: 'insert into "installation" ("name", "value") values (…) on conflict ("name") do update set "value" = ?',
    why: 'it belongs to no workspace',
  },
  {
    text: 'insert into "meta" ("workspace", "name", "value") values (…) on conflict ("workspace", "name") do nothing',
    why: 'triage begins, whoever owns the workspace',
  },
  {
    text: 'insert into "replicas" ("id", "address", "about", "incarnation", "expires_at") values (?, ?, ?, ?, cast(? as bigint) + ?) on conflict ("id") do update set "incarnation" = ?, "address" = ?, "about" = ?, "expires_at" = cast(? as bigint) + ?',
    why: 'a process registers itself before it owns anything',
  },
  {
    text: 'insert into "workspaces" ("name") values (…) on conflict ("name") do nothing',
    why: 'a workspace gets its number before anybody owns it',
  },
  {
    text: 'update "inbox" set "state" = ?, "attempts" = ?, "reason" = ?, "settled_at" = ?, "received_at" = ?, "event" = ?, "body" = ?, "unpacked_length" = ? where "workspace" = ? and "connection" = ? and "delivery_key" = ? and "state" = ? and ("reason" is null or "reason" not like ? or "body" != ?) returning "id"',
    why: 'deliveries are taken whoever owns the workspace, also those that come again',
  },
  {
    text: 'update "leases" set "incarnation" = ? where "incarnation" = ?',
    why: 'a process gives back what is its own',
  },
  {
    text: 'update "leases" set "incarnation" = ? where "incarnation" = ? and "workspace" in (…)',
    why: 'a process gives back what is its own',
  },
  {
    text: 'update "replicas" set "expires_at" = case when cast(? as bigint) + ? > expires_at then cast(? as bigint) + ? else expires_at + 1 end where "incarnation" = ? returning "incarnation", cast(? as bigint) as "now"',
    why: 'a process renews itself, by its incarnation',
  },
  {
    text: 'update "replicas" set "address" = ?, "about" = ? where "incarnation" = ?',
    why: 'a process describes itself anew, by its incarnation',
  },
];

/** They change more rows than they name by their keys. */
const MANY: readonly Allowed[] = [
  {
    text: 'delete from "backfills" where "backfills"."workspace" = ? and "connection" = ?',
    why: 'another backfill of a connection begins, or it is told which units it has',
  },
  {
    text: 'update "backfills" set "not_before" = ? where "backfills"."workspace" = ? and "connection" = ? and "finished_at" is null',
    why: 'a backfill is paused or goes on, with all of its units',
  },
  {
    text: 'update "backfills" set "not_before" = case when not_before = ? then not_before else ? end where "backfills"."workspace" = ? and "connection" = ? and "finished_at" is null',
    why: 'what waits of a backfill may be dated by another clock, and is tried at the start, and when the clock was set back',
  },
  {
    text: 'delete from "meta" where "meta"."workspace" = ? and "name" like ? and "name" not in (…)',
    why: 'what is remembered of connections that are not configured any more',
  },
  {
    text: 'delete from "scope_names" where "scope_names"."workspace" = ? and "connection" = ? and "entry" not in (…)',
    why: 'names that are not configured any more',
  },
  {
    text: 'update "notices" set "state" = ?, "attempts" = ?, "not_before" = ? where "notices"."workspace" = ? and "state" = ?',
    why: 'a process that starts tries all again that a vendor had refused',
  },
  {
    text: 'update "notices" set "not_before" = ? where "notices"."workspace" = ? and "state" = ? and "done" = ?',
    why: 'what a process was writing to vendors when it ended waits until it must have arrived',
  },
  {
    text: 'update "notices" set "not_before" = ? where "notices"."workspace" = ? and "state" = ? and "not_before" > ? and ("done" is null or "done" != ?)',
    why: 'what waited may be dated by another clock, and is tried at the start, and when the clock was set back',
  },
  {
    text: 'update "notices" set "not_before" = ? where "notices"."workspace" = ? and "state" = ? and "done" = ? and "not_before" > ?',
    why: 'when the clock was set back, what may be on its way waits until it must have arrived',
  },
  {
    text: 'update "outbox" set "since" = ?, "due" = ? where "outbox"."workspace" = ? and "state" in (…) and "send_queue" in (…) and "due" > ? and "since" > ?',
    why: 'all that came in the future, whatever becomes of it, after the clock was set back',
  },
  {
    text: 'update "outbox" set "not_before" = ? where "outbox"."workspace" = ? and "state" in (…) and "send_queue" in (…) and "not_before" > ?',
    why: 'all that is to wait further ahead than anything does, after the clock was set back',
  },
  {
    text: 'update "outbox" set "next_since" = ? where "outbox"."workspace" = ? and "state" in (…) and "next_since" > ?',
    why: 'all that has changed in the future while it was on its way, after the clock was set back',
  },
  {
    text: 'update "entities" set "known_at" = ? where "entities"."workspace" = ? and "known_at" > ?',
    why: 'all that is known from the future, after the clock was set back',
  },
  {
    text: 'delete from "installation" where "name" like ?',
    why: 'all that is known of the last runs of jobs is written anew',
  },
  {
    text: 'delete from "job_runs" where "job_runs"."workspace" = ?',
    why: 'all that is known of the last runs is written anew',
  },
  {
    text: 'delete from "ledger" where "ledger"."workspace" = ? and "completed" < ?',
    why: 'requests that count no longer',
  },
  {
    text: 'delete from "quota_use" where "quota_use"."workspace" = ? and "since" < ?',
    why: 'whole quarters of an hour of which nobody asks any more',
  },
  {
    text: 'delete from "workspace_findings" where "workspace_findings"."workspace" = ? and "sweep" < ?',
    why: 'those of earlier sweeps',
  },
  {
    text: 'delete from "workspace_listed" where "workspace_listed"."workspace" = ?',
    why: 'a sweep begins or ends',
  },
  {
    text: 'update "leases" set "incarnation" = ? where "incarnation" = ?',
    why: 'a process gives back all that it holds',
  },
  {
    text: 'update "outbox" set "guard" = ? where "outbox"."workspace" = ? and "entity" in (select "entity" from "outbox" where "outbox"."workspace" = ? and "effect" = ? and "state" = ? and "guard" is null and "kind" != ?)',
    why: 'a mass that the guard lets pass',
  },
  {
    text: 'update "outbox" set "not_before" = ? where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null and "not_before" < ?',
    why: 'creations go one at a time until a list has shown a task of ours',
  },
  {
    text: 'update "outbox" set "not_before" = ? where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null and "not_before" > ? and "not_before" <= ?',
    why: 'a creation has ended, and the next one may go',
  },
  {
    text: 'delete from "meta" where "meta"."workspace" = ? and "name" like ?',
    why: 'the workspace is at another address, and what was read of links there is forgotten',
  },
  {
    text: 'update "outbox" set "not_before" = ?, "due" = ? where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null and "not_before" > ?',
    why: 'creations that a list did not release wait for the next one',
  },
  {
    text: 'delete from "outbox" where "outbox"."workspace" = ? and "kind" = ? and "state" in (…)',
    why: 'the workspace has no route for records, so none of them can be sent',
  },
  {
    text: 'update "outbox" set "not_before" = ?, "due" = ? where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null',
    why: 'creates that wait for the list of tasks',
  },
  {
    text: 'update "outbox" set "not_before" = ?, "due" = "since" where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null and "not_before" > ? and "not_before" <= ?',
    why: 'creates that waited for the list of tasks',
  },
];

export function mayBeAlone(text: string): boolean {
  return ALONE.some((each) => text === each.text);
}

export function mayChangeMany(text: string): boolean {
  return MANY.some((each) => text === each.text);
}
