/** Statements of which it is right that they do what others must not, with the reason. The text is whole: with another condition it is another one. */
type Allowed = Readonly<Record<string, string>>;

/** They write outside of a transaction. */
const ALONE: Allowed = {
  'delete from "audit" where "id" in (…)': 'what is older than anybody asks for is deleted by whoever finds it',
  'delete from "replicas" where "incarnation" = ?':
    'a process that ends removes its own row, and no other is of its incarnation',
  'delete from "replicas" where "incarnation" = ? and "expires_at" = ?':
    'it removes a process that has expired only as it was read: one that was renewed since stays',
  'insert into "audit" ("at", "workspace", "actor", "action", "subject", "count", "outcome", "details") values (…) returning "id"':
    'what somebody asks for is on record before it is done, whatever becomes of it',
  'update "audit" set "outcome" = ?, "count" = ?, "details" = ? where "id" = ?':
    'what became of it belongs to no workspace',
  'insert into "inbox" ("workspace", "connection", "delivery_key", "source", "event", "received_at", "state", "unpacked_length", "body") values (…) on conflict ("workspace", "connection", "delivery_key") do nothing returning "id", "workspace", "connection", "delivery_key"':
    'deliveries are taken whoever owns the workspace',
  'insert into "installation" ("name", "value") values (…) on conflict ("name") do update set "value" = ?':
    'it belongs to no workspace',
  'insert into "meta" ("workspace", "name", "value") values (…) on conflict ("workspace", "name") do nothing':
    'triage begins, whoever owns the workspace',
  'insert into "replicas" ("id", "address", "about", "incarnation", "expires_at") values (?, ?, ?, ?, cast(? as bigint) + ?) on conflict ("id") do update set "incarnation" = ?, "address" = ?, "about" = ?, "expires_at" = cast(? as bigint) + ?':
    'a process registers itself before it owns anything',
  'insert into "workspaces" ("name") values (…) on conflict ("name") do nothing':
    'a workspace gets its number before anybody owns it',
  'update "inbox" set "state" = ?, "attempts" = ?, "reason" = ?, "settled_at" = ?, "received_at" = ?, "event" = ?, "body" = ?, "unpacked_length" = ? where "workspace" = ? and "connection" = ? and "delivery_key" = ? and "state" = ? and ("reason" is null or "reason" not like ? or "body" != ?) returning "id"':
    'deliveries are taken whoever owns the workspace, also those that come again',
  'update "leases" set "incarnation" = ? where "incarnation" = ?': 'a process gives back what is its own',
  'update "leases" set "incarnation" = ? where "incarnation" = ? and "workspace" in (…)':
    'a process gives back what is its own',
  'update "replicas" set "expires_at" = case when cast(? as bigint) + ? > expires_at then cast(? as bigint) + ? else expires_at + 1 end where "incarnation" = ? returning "incarnation", cast(? as bigint) as "now"':
    'a process renews itself, by its incarnation',
  'update "replicas" set "address" = ?, "about" = ? where "incarnation" = ?':
    'a process describes itself anew, by its incarnation',
};

/** They change more rows than they name by their keys. */
const MANY: Allowed = {
  'delete from "backfills" where "backfills"."workspace" = ? and "connection" = ?':
    'another backfill of a connection begins, or it is told which units it has',
  'update "backfills" set "not_before" = ? where "backfills"."workspace" = ? and "connection" = ? and "finished_at" is null':
    'a backfill is paused or goes on, with all of its units',
  'update "backfills" set "not_before" = case when not_before = ? then not_before else ? end where "backfills"."workspace" = ? and "connection" = ? and "finished_at" is null':
    'what waits of a backfill may be dated by another clock, and is tried at the start, and when the clock was set back',
  'delete from "meta" where "meta"."workspace" = ? and "name" like ? and "name" not in (…)':
    'what is remembered of connections that are not configured any more',
  'delete from "scope_names" where "scope_names"."workspace" = ? and "connection" = ? and "entry" not in (…)':
    'names that are not configured any more',
  'update "notices" set "state" = ?, "attempts" = ?, "not_before" = ? where "notices"."workspace" = ? and "state" = ?':
    'a process that starts tries all again that a vendor had refused',
  'update "notices" set "not_before" = ? where "notices"."workspace" = ? and "state" = ? and "done" = ?':
    'what a process was writing to vendors when it ended waits until it must have arrived',
  'update "notices" set "not_before" = ? where "notices"."workspace" = ? and "state" = ? and "not_before" > ? and ("done" is null or "done" != ?)':
    'what waited may be dated by another clock, and is tried at the start, and when the clock was set back',
  'update "notices" set "not_before" = ? where "notices"."workspace" = ? and "state" = ? and "done" = ? and "not_before" > ?':
    'when the clock was set back, what may be on its way waits until it must have arrived',
  'update "outbox" set "since" = ?, "due" = ? where "outbox"."workspace" = ? and "state" in (…) and "send_queue" in (…) and "due" > ? and "since" > ?':
    'all that came in the future, whatever becomes of it, after the clock was set back',
  'update "outbox" set "not_before" = ? where "outbox"."workspace" = ? and "state" in (…) and "send_queue" in (…) and "not_before" > ?':
    'all that is to wait further ahead than anything does, after the clock was set back',
  'update "outbox" set "next_since" = ? where "outbox"."workspace" = ? and "state" in (…) and "next_since" > ?':
    'all that has changed in the future while it was on its way, after the clock was set back',
  'update "entities" set "known_at" = ? where "entities"."workspace" = ? and "known_at" > ?':
    'all that is known from the future, after the clock was set back',
  'delete from "installation" where "name" like ?': 'all that is known of the last runs of jobs is written anew',
  'delete from "job_runs" where "job_runs"."workspace" = ?': 'all that is known of the last runs is written anew',
  'delete from "ledger" where "ledger"."workspace" = ? and "completed" < ?': 'requests that count no longer',
  'delete from "quota_use" where "quota_use"."workspace" = ? and "since" < ?':
    'whole quarters of an hour of which nobody asks any more',
  'delete from "workspace_findings" where "workspace_findings"."workspace" = ? and "sweep" < ?':
    'those of earlier sweeps',
  'delete from "workspace_listed" where "workspace_listed"."workspace" = ?': 'a sweep begins or ends',
  'update "leases" set "incarnation" = ? where "incarnation" = ?': 'a process gives back all that it holds',
  'update "outbox" set "guard" = ? where "outbox"."workspace" = ? and "entity" in (select "entity" from "outbox" where "outbox"."workspace" = ? and "effect" = ? and "state" = ? and "guard" is null and "kind" != ?)':
    'a mass that the guard lets pass',
  'update "outbox" set "not_before" = ? where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null and "not_before" < ?':
    'creations go one at a time until a list has shown a task of ours',
  'update "outbox" set "not_before" = ? where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null and "not_before" > ? and "not_before" <= ?':
    'a creation has ended, and the next one may go',
  'delete from "meta" where "meta"."workspace" = ? and "name" like ?':
    'the workspace is at another address, and what was read of links there is forgotten',
  'update "outbox" set "not_before" = ?, "due" = ? where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null and "not_before" > ?':
    'creations that a list did not release wait for the next one',
  'delete from "outbox" where "outbox"."workspace" = ? and "kind" = ? and "state" in (…)':
    'the workspace has no route for records, so none of them can be sent',
  'update "outbox" set "not_before" = ?, "due" = ? where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null':
    'creates that wait for the list of tasks',
  'update "outbox" set "not_before" = ?, "due" = "since" where "outbox"."workspace" = ? and "kind" = ? and "state" = ? and "attempts" = ? and "sent" is null and "not_before" > ? and "not_before" <= ?':
    'creates that waited for the list of tasks',
};

export function mayBeAlone(text: string): boolean {
  return Object.hasOwn(ALONE, text);
}

export function mayChangeMany(text: string): boolean {
  return Object.hasOwn(MANY, text);
}
