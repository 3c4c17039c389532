import type { Mutation } from './operators.ts';

/** A mistake that nobody can see from outside, and why. */
interface Unobservable extends Pick<Mutation, 'file' | 'kind'> {
  /** What stands there without the mistake, or how it begins; all white space is one space. */
  readonly text: string;
  readonly why: string;
}

const IN_ORDER =
  'statements of one connection run in the order in which they begin, and nothing later in the transaction reads this';
const IN_MEMORY = 'it changes rows that are kept in memory, at once: nothing is awaited in it';
const ONE_INSTANT = 'only at one instant out of a continuum it decides otherwise';
const UNIQUE = 'it sorts names of which no two are equal';
const ONE_STATEMENT = 'it is one statement, which is a transaction by itself, and may be done twice';

const OTHERS_TURN = 'it only lets other work have its turn in between';

const ONE_TURN = 'a crowd waits one turn of the event loop longer for its commit';

const AWAIT = 'an await is lost';
const LEFT_OUT = 'a statement is left out';
const BOUND = 'a bound is moved by one';
const SPLIT = 'a transaction is split';

export const KEPT: readonly Unobservable[] = [
  {
    ...{ file: 'src/reconcile/batch.ts', kind: AWAIT, text: 'await foresee(' },
    why: 'it only reads ahead what is read anyway, and fails for nobody',
  },
  {
    ...{ file: 'src/outbox/outbox.ts', kind: LEFT_OUT, text: 'await nextTurn();' },
    why: OTHERS_TURN,
  },
  {
    ...{ file: 'src/throttle/brake.ts', kind: BOUND, text: 'brake.halt.until > refusal.until' },
    why: 'of two pauses that end at the same moment it names the other',
  },
  {
    ...{ file: 'src/intake/retention.ts', kind: AWAIT, text: 'await letOthersIn();' },
    why: OTHERS_TURN,
  },
  {
    ...{ file: 'src/outbox/settle.ts', kind: AWAIT, text: 'await updateChange(query, prepared.entity, { ...anew' },
    why: IN_ORDER,
  },
  {
    ...{ file: 'src/store/workspace-sweeps.ts', kind: AWAIT, text: "await query.deleteFrom('workspace_listed')" },
    why: IN_ORDER,
  },
  {
    ...{ file: 'src/lease/shared-holder.ts', kind: BOUND, text: 'takenOver > 0' },
    why: 'a count is increased by nothing',
  },
  {
    ...{ file: 'src/lease/shared-holder.ts', kind: AWAIT, text: 'await lockLeases(transaction);' },
    why: IN_ORDER,
  },
  {
    ...{ file: 'src/store/leases.ts', kind: AWAIT, text: 'await sql`select pg_advisory_xact_lock(' },
    why: IN_ORDER,
  },
  {
    ...{ file: 'src/lease/shared-holder.ts', kind: LEFT_OUT, text: 'terms.trust(own, began);' },
    why: 'the lease is trusted for some tenths of a second less than it could be, until the next renewal',
  },
  {
    ...{ file: 'src/reconcile/answers/apply.ts', kind: AWAIT, text: 'await writeMeta(query, WORKSPACE_ID' },
    why: IN_ORDER,
  },
  {
    ...{
      file: 'src/intake/sweeps.ts',
      kind: SPLIT,
      text: 'store.commit(async (transaction) => { const rows = keepRows(',
    },
    why: 'all that it writes goes out together at its end, and a sweep that is cut short begins again',
  },
  {
    ...{
      file: 'src/store/leases.ts',
      kind: 'a fence is forgotten',
      text: "conflict .column('workspace') .doUpdateSet({ incarnation, ep",
    },
    why: 'the same transaction has just read under its lock that nobody owns them',
  },
  {
    ...{
      file: 'src/outbox/sweep-jobs.ts',
      kind: SPLIT,
      text: 'store.commit(async (transaction) => { await wishReads(',
    },
    why: 'who dies in between asks once more for the same read, which is one row',
  },
  {
    ...{ file: 'src/store/next-change.ts', kind: 'a condition is inverted', text: 'a.entity < b.entity' },
    why: 'of two that are equally urgent the other goes first',
  },
  {
    ...{ file: 'src/store/row-statements.ts', kind: BOUND, text: 'size >= some.length' },
    why: 'a statement names its last row some times more, which changes nothing',
  },
  {
    ...{ file: 'src/throttle/throttle.ts', kind: BOUND, text: 'now < carefulUntil' },
    why: ONE_INSTANT,
  },
  {
    ...{ file: 'src/outbox/outbox.ts', kind: BOUND, text: 'wait > 0' },
    why: 'what is due at this very moment waits a millisecond',
  },
  {
    ...{ file: 'src/intake/retention.ts', kind: SPLIT, text: 'store.commitRelaxed((query) => portion.work(' },
    why: 'what a purge leaves, the next one purges: it may end anywhere',
  },
  {
    ...{ file: 'src/lease/term.ts', kind: BOUND, text: 'workspaces > 0' },
    why: 'it logs that no lease has expired, and looks for changes where there are none',
  },
  {
    ...{ file: 'src/reconcile/take-deliveries.ts', kind: SPLIT, text: 'store.commit((transaction) => countAttempt(' },
    why: ONE_STATEMENT,
  },
  {
    ...{ file: 'src/intake/sweeps.ts', kind: SPLIT, text: 'deps.store.commit((transaction) => keepSweepsOf(' },
    why: ONE_STATEMENT,
  },
  {
    ...{
      file: 'src/outbox/settle.ts',
      kind: AWAIT,
      text: "await updateChange(query, prepared.entity, { state: 'unknown'",
    },
    why: IN_ORDER,
  },
  {
    ...{
      file: 'src/outbox/settle.ts',
      kind: AWAIT,
      text: 'await addRequest(query, ended(prepared, { now: context.now',
    },
    why: IN_ORDER,
  },
  {
    ...{
      file: 'src/store/next-change.ts',
      kind: 'a fence is forgotten',
      text: "query .updateTable('outbox') .where('state', 'in', CHANGE_STATES) .where('queue', 'in'",
    },
    why: 'it names every state and every queue that there is, so that an index answers',
  },
  {
    ...{ file: 'src/outbox/attempt.ts', kind: AWAIT, text: 'await slot.complete({ status, key: null }, transaction);' },
    why: IN_ORDER,
  },
  {
    ...{ file: 'src/intake/name-book.ts', kind: AWAIT, text: 'await saveName(transaction, connection,' },
    why: IN_ORDER,
  },
  {
    ...{ file: 'src/intake/sweeps.ts', kind: AWAIT, text: 'await nextTurn();' },
    why: OTHERS_TURN,
  },
  {
    ...{ file: 'src/intake/sweeps.ts', kind: LEFT_OUT, text: 'await nextTurn();' },
    why: OTHERS_TURN,
  },
  {
    ...{ file: 'src/outbox/sweep-jobs.ts', kind: AWAIT, text: 'await nextTurn();' },
    why: OTHERS_TURN,
  },
  {
    ...{ file: 'src/outbox/sweep-jobs.ts', kind: LEFT_OUT, text: 'await nextTurn();' },
    why: OTHERS_TURN,
  },
  {
    ...{ file: 'src/outbox/sweep-jobs.ts', kind: BOUND, text: 'clock.monotonic() >= until' },
    why: ONE_INSTANT,
  },
  {
    ...{ file: 'src/outbox/outbox.ts', kind: BOUND, text: 'clock.monotonic() - lookedAt < AT_ONCE' },
    why: ONE_INSTANT,
  },
  {
    ...{ file: 'src/intake/group-commit.ts', kind: BOUND, text: 'turn < MOST_TURNS' },
    why: ONE_TURN,
  },
  {
    ...{ file: 'src/intake/group-commit.ts', kind: BOUND, text: 'seen < MOST_IN_COMMIT' },
    why: ONE_TURN,
  },
  {
    ...{ file: 'src/lease/shared-holder.ts', kind: BOUND, text: 'taken.size > 0' },
    why: 'whoever is told looks at the leases, and finds them as they were',
  },
  {
    ...{ file: 'src/lease/neighbours.ts', kind: LEFT_OUT, text: 'texts = new Map(' },
    why: 'it only spares reading the same text again',
  },
  {
    ...{ file: 'src/store/workspace-sweeps.ts', kind: AWAIT, text: 'await save(query, begun);' },
    why: IN_MEMORY,
  },
  {
    ...{ file: 'src/reconcile/answers/record-answers.ts', kind: BOUND, text: 'left < right' },
    why: UNIQUE,
  },
  {
    ...{ file: 'src/reconcile/answers/record-answers.ts', kind: 'a condition is inverted', text: 'left < right' },
    why: 'it sorts names so that equal records have equal texts, which each order does that is always the same',
  },
  {
    ...{ file: 'src/store/wanted-fetches.ts', kind: BOUND, text: 'a < b' },
    why: UNIQUE,
  },
  {
    ...{ file: 'src/reconcile/batch.ts', kind: BOUND, text: 'work.workItems.length > 0' },
    why: 'it reads a fact and holds the creations of no item',
  },
  {
    ...{ file: 'src/reconcile/batch-looks.ts', kind: BOUND, text: 'unknownKeys.length + unknownIds.length > 0' },
    why: 'it remembers items that name nothing unknown, which are none of those that name what may be new',
  },
  {
    ...{ file: 'src/reconcile/reconcile.ts', kind: BOUND, text: 'others.length > 0' },
    why: 'to take over no deliveries does nothing',
  },
  {
    ...{ file: 'src/store/stored-rows.ts', kind: BOUND, text: 'missing.length > 0' },
    why: 'it reads nothing, or once more what was read',
  },
  {
    ...{ file: 'src/store/bodies.ts', kind: BOUND, text: 'body.length <= LARGE' },
    why: 'a body of just this size is packed by another thread, into the same bytes',
  },
  {
    ...{ file: 'src/store/bodies.ts', kind: BOUND, text: 'body.length < 4' },
    why: 'a block of four bytes is damaged all the same: nothing can be unpacked of it',
  },
  {
    ...{ file: 'src/store/item-names.ts', kind: BOUND, text: 'left.itemKey > right.itemKey' },
    why: 'of two names of one item the other comes first, and whoever asked looks them up by their names',
  },
  {
    ...{
      file: 'src/reconcile/suspects.ts',
      kind: SPLIT,
      text: 'store.commit((transaction) => writeMeta(transaction, TR',
    },
    why: 'it is one statement, and the transaction just before it shows who has lost the workspace',
  },
  {
    ...{
      file: 'src/store/row-statements.ts',
      kind: 'a statement is left out',
      text: 'statements.set(name, statement)',
    },
    why: 'a statement is built anew each time, which only takes longer',
  },
  {
    ...{ file: 'src/store/rows-seen.ts', kind: BOUND, text: 'more.length > 0' },
    why: 'rows are named otherwise wherever they are named, so that some are read once more',
  },
  {
    ...{ file: 'src/reconcile/take-deliveries.ts', kind: BOUND, text: 'end < 0' },
    why: 'no portion ends before its first delivery',
  },
  {
    ...{ file: 'src/store/held-changes.ts', kind: BOUND, text: 'hold > 0' },
    why: 'it holds the first none of them',
  },
  {
    ...{ file: 'src/intake/pauses.ts', kind: BOUND, text: 'ms > 0' },
    why: 'it pauses for no time',
  },
  {
    ...{ file: 'src/store/deletions.ts', kind: BOUND, text: 'ids.length > 0' },
    why: 'it deletes the rows of no ids',
  },
  {
    ...{
      file: 'src/reconcile/evaluate-links.ts',
      kind: AWAIT,
      text: 'await addChange(work, target, { renewed: row.desired',
    },
    why: IN_MEMORY,
  },
  {
    ...{ file: 'src/reconcile/take-deliveries.ts', kind: BOUND, text: 'first > 0' },
    why: OTHERS_TURN,
  },
  {
    ...{ file: 'src/reconcile/reconcile.ts', kind: AWAIT, text: 'await letOthersIn();' },
    why: OTHERS_TURN,
  },
  {
    ...{
      file: 'src/reconcile/answers/link-answers.ts',
      kind: AWAIT,
      text: 'await saveEntity(query, { ...row, known, remote_id: link.workItemId',
    },
    why: IN_MEMORY,
  },
  {
    ...{ file: 'src/store/kept-rows.ts', kind: BOUND, text: 'works.length > 1' },
    why: 'one alone runs ahead too, and reads the same',
  },
  {
    ...{ file: 'src/intake/position.ts', kind: BOUND, text: 'Date.parse(b) > Date.parse(a)' },
    why: 'of two equal times the other one is taken',
  },
  {
    ...{ file: 'src/throttle/ceiling.ts', kind: BOUND, text: 'target <= share + EPSILON' },
    why: 'only of two numbers that differ by just so much it decides otherwise',
  },
  {
    ...{ file: 'src/reconcile/reconcile.ts', kind: AWAIT, text: 'await giveWay(' },
    why: OTHERS_TURN,
  },
  {
    ...{ file: 'src/intake/sweeps.ts', kind: LEFT_OUT, text: 'await expectFetches(' },
    why: 'it reads at once what is read one by one otherwise',
  },
  {
    ...{ file: 'src/lease/lapse-watch.ts', kind: BOUND, text: 'began - (seen.get(incarnation)' },
    why: ONE_INSTANT,
  },
  {
    ...{ file: 'src/intake/group-commit.ts', kind: BOUND, text: 'clock.monotonic() - crowdedAt < CROWD' },
    why: ONE_INSTANT,
  },
  {
    ...{ file: 'src/reconcile/link-rules/scan.ts', kind: BOUND, text: 'end > 0' },
    why: 'no address consists of nothing but signs that end sentences',
  },
  {
    ...{ file: 'src/intake/sweeps.ts', kind: BOUND, text: 'asked > 0' },
    why: 'whoever is woken by it finds nothing to do',
  },
  {
    ...{ file: 'src/lease/store-clock.ts', kind: BOUND, text: 'least - ahead > JUMP' },
    why: ONE_INSTANT,
  },
  {
    ...{
      file: 'src/reconcile/evaluate-task.ts',
      kind: AWAIT,
      text: 'await saveEntity(query, { ...row, desired: next });',
    },
    why: IN_MEMORY,
  },
  {
    ...{ file: 'src/reconcile/reconcile.ts', kind: BOUND, text: 'clock.monotonic() < until' },
    why: ONE_INSTANT,
  },
  {
    ...{ file: 'src/intake/name-book.ts', kind: BOUND, text: 'age < 0' },
    why: ONE_INSTANT,
  },
  {
    ...{ file: 'src/outbox/deadlines.ts', kind: BOUND, text: 'due > latest - LATELY' },
    why: ONE_INSTANT,
  },
  {
    ...{ file: 'src/throttle/share-note.ts', kind: AWAIT, text: 'await writeMeta(query, SHARE' },
    why: IN_ORDER,
  },
];

/** Why nobody can see it; undefined: somebody can. */
export function whyUnobservable({ file, kind }: Pick<Mutation, 'file' | 'kind'>, text: string): string | undefined {
  return KEPT.find((each) => each.file === file && each.kind === kind && text.startsWith(each.text))?.why;
}
