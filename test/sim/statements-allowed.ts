/** Statements of which it is right that they do what others must not, by how they begin, each with its reason. */
interface Allowed {
  readonly text: string;
  readonly why: string;
}

/** They write outside of a transaction. */
const ALONE: readonly Allowed[] = [
  { text: 'insert into "workspaces"', why: 'a workspace gets its number before anybody owns it' },
  { text: 'insert into "installation"', why: 'it belongs to no workspace' },
  { text: 'insert into "meta" ("workspace", "name", "value")', why: 'triage begins, whoever owns the workspace' },
  { text: 'insert into "replicas"', why: 'leases are statements of their own, each guarded by itself' },
  { text: 'update "replicas"', why: 'the same' },
  { text: 'delete from "replicas"', why: 'the same' },
  { text: 'update "leases" set "incarnation" = ?', why: 'the same' },
  { text: 'insert into "inbox"', why: 'deliveries are taken whoever owns the workspace' },
  {
    text: 'update "inbox" set "state" = ?, "attempts" = ?, "reason" = ?, "settled_at" = ?, "received_at" = ?',
    why: 'the same of one that comes again',
  },
];

/** They change more rows than they name. */
const MANY: readonly Allowed[] = [
  { text: 'update "outbox" set "not_before" = ?, "due" = "since"', why: 'creates that wait for the list of tasks' },
  {
    text: 'update "outbox" set "guard" = ? where "outbox"."workspace" = ? and "entity" in (select',
    why: 'a mass that the guard lets pass',
  },
  {
    text: 'delete from "ledger" where "ledger"."workspace" = ? and "completed" < ?',
    why: 'requests that count no longer',
  },
  {
    text: 'delete from "workspace_findings" where "workspace_findings"."workspace" = ? and "sweep" < ?',
    why: 'those of earlier sweeps',
  },
  { text: 'delete from "workspace_listed" where "workspace_listed"."workspace" = ?', why: 'a sweep begins or ends' },
];

export function mayBeAlone(text: string): boolean {
  return ALONE.some((each) => text.startsWith(each.text));
}

export function mayChangeMany(text: string): boolean {
  return MANY.some((each) => text.startsWith(each.text));
}
