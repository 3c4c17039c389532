import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { PullRequest, PullRequestState } from '../../model/item.ts';
import type {
  ConnectionDeps,
  GitProvider,
  MemberAccess,
  NewPullRequest,
  PullRequestEdit,
  WrittenPullRequest,
} from '../connector.ts';

/** Writes of members at a git provider: open, read, edit, settle. The end of this file lists what each vendor says of itself. */
export function createGitProvider(vendor: GitWrites, deps: ConnectionDeps): GitProvider {
  const at = (access: MemberAccess, repoId: string, signal: AbortSignal) => {
    const own = `${access.host}:`;
    const id = repoId.startsWith(own) ? repoId.slice(own.length) : repoId;
    return vendor.connect({ access, repoId: id, signal }, deps);
  };
  const settled = ({ host }: MemberAccess, written: Settled): WrittenPullRequest => {
    const { repoId } = written.pullRequest;
    return { repoId: host === vendor.publicHost ? repoId : `${host}:${repoId}`, ...written };
  };
  return {
    hasBranch: async (access, { repoId, branch }, signal) => at(access, repoId, signal).hasBranch(branch),
    async openPullRequest(access, wanted, signal) {
      refuseUnsupported(vendor, wanted);
      return settled(access, await open(vendor, at(access, wanted.repoId, signal), wanted));
    },
    async editPullRequest(access, wanted, signal) {
      refuseUnsupported(vendor, wanted);
      if (!/^[1-9]\d{0,14}$/.test(wanted.identifier))
        throw refused('validation_failed', 'identifier: expected a number');
      return settled(access, await edit(vendor, at(access, wanted.repoId, signal), wanted));
    },
  };
}

type Settled = Omit<WrittenPullRequest, 'repoId'>;

function refuseUnsupported({ title, lacks = [], takes }: GitWrites, wanted: Partial<PullRequestEdit>): void {
  const field = lacks.find((name) => wanted[name] !== undefined);
  if (field !== undefined) throw refused('unsupported_field', `${field}: ${title} has none`);
  const { state } = wanted;
  if (state === undefined || takes.includes(state)) return;
  throw refused(
    'unsupported_field',
    `state: ${title} does not accept "${state}" here; merge a pull request at ${title} itself`,
  );
}

async function open(vendor: GitWrites, member: MemberRepository, wanted: NewPullRequest): Promise<Settled> {
  const send = await member.opening(wanted);
  const made = await send().catch((thrown: unknown) => adopt(member, wanted, thrown));
  const { identifier } = read(member, made);
  const steps = member.afterOpening?.(wanted, identifier) ?? [];
  const asked = {
    labels: nonEmpty(wanted.labels),
    assignees: nonEmpty(wanted.assignees),
    reviewers: nonEmpty(wanted.reviewers),
  };
  return settle(vendor, member, await carryOut(member, identifier, made, steps), asked);
}

/** After a creation that got no answer: reads whether the pull request exists. Nobody sends the creation again. */
async function adopt(member: MemberRepository, wanted: NewPullRequest, thrown: unknown): Promise<unknown> {
  const error = asSyncError(thrown);
  if (!hasUnknownOutcome(error)) throw error;
  const found = await member.findOpen(wanted).catch(() => undefined);
  if (found === undefined) throw error;
  return member.read(String(found.number));
}

async function edit(vendor: GitWrites, member: MemberRepository, wanted: PullRequestEdit): Promise<Settled> {
  const before = await member.read(wanted.identifier);
  const steps = await member.editing(wanted, before);
  const outcome = await carryOut(member, wanted.identifier, before, steps);
  const { failure, wrote } = outcome;
  if (failure && !wrote && !hasUnknownOutcome(failure)) throw failure;
  return settle(vendor, member, outcome, wanted);
}

interface Outcome {
  /** The pull request as the provider told it last. */
  readonly held: unknown;
  readonly wrote: boolean;
  readonly failure: SyncError | undefined;
}

/** Runs the steps in order, up to the first that fails. Sends nothing twice: reads what the provider has instead. */
async function carryOut(
  member: MemberRepository,
  number: string,
  before: unknown,
  steps: readonly Step[],
): Promise<Outcome> {
  let [held, wrote, isStale] = [before, false, false];
  let failure: SyncError | undefined;
  for (const step of steps) {
    try {
      const done = await step();
      if (!done) continue;
      [held, wrote, isStale] = [done.current ?? held, true, done.current === undefined];
    } catch (thrown) {
      failure = asSyncError(thrown);
      isStale = wrote || hasUnknownOutcome(failure);
      break;
    }
  }
  if (isStale) held = await member.read(number).catch(() => held);
  return { held, wrote, failure };
}

/** The pull request as the provider has it, and why a part of what was wanted is missing. */
function settle(
  vendor: GitWrites,
  member: MemberRepository,
  { held, failure }: Outcome,
  wanted: Partial<PullRequestEdit>,
): Settled {
  const pullRequest = read(member, held);
  const dropped = member.dropped?.(pullRequest, wanted);
  const isDone = failure === undefined || (hasUnknownOutcome(failure) && isCarriedOut(vendor, wanted, pullRequest));
  const left = isDone ? dropped : failure;
  return { pullRequest, ...(left && { refused: left }) };
}

function read(member: MemberRepository, content: unknown): PullRequest {
  try {
    return member.pullOf(content);
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'delivery_malformed') throw error;
    // It is an answer, and no delivery.
    throw new SyncError('answer_malformed', `a pull request: ${error.message}`, { cause: error });
  }
}

function hasUnknownOutcome({ code }: SyncError): boolean {
  return code === 'outcome_unknown' || code === 'server_failed';
}

/** Whether the provider carried out all of an edit that it did not answer. */
function isCarriedOut(vendor: GitWrites, edit: Partial<PullRequestEdit>, held: PullRequest): boolean {
  const wanted = vendor.asStored?.(edit) ?? edit;
  const plain = (text: string | null | undefined) => {
    const lines = (text ?? '').replace(/\r\n?/g, '\n').trim();
    return vendor.plain?.(lines) ?? lines;
  };
  const isSame = (field: 'title' | 'description' | 'baseBranch') =>
    wanted[field] === undefined || plain(wanted[field]) === plain(held[field]);
  return (
    (['title', 'description', 'baseBranch'] as const).every(isSame) &&
    LISTS.every((list) => firstDifference(wanted[list], held[list] ?? []) === undefined) &&
    (['draft', 'state'] as const).every((field) => wanted[field] === undefined || wanted[field] === held[field])
  );
}

const LISTS = ['labels', 'assignees', 'reviewers'] as const;

/** A name that was wanted and is missing, else one that is there and was not wanted. Case does not count. */
export function firstDifference(wanted: readonly string[] | undefined, held: readonly string[]): string | undefined {
  return wanted && (without(wanted, held)[0] ?? without(held, wanted)[0]);
}

/** The names that are not among the others. Case does not count. */
export function without(names: readonly string[], others: readonly string[]): readonly string[] {
  const known = new Set(others.map((name) => name.trim().toLowerCase()));
  return names.filter((name) => !known.has(name.trim().toLowerCase()));
}

/** Whether a body has no part at all, so that there is nothing to send. */
export function isEmpty(body: object): boolean {
  return Object.values(body).every((value) => value === undefined);
}

/** The names; undefined where the list is empty. */
export function nonEmpty(names: readonly string[] | undefined): readonly string[] | undefined {
  return names?.length === 0 ? undefined : names;
}

export function refused(errorCode: string, message: string): SyncError {
  return new SyncError('refused', message, { errorCode, status: 422 });
}

export function missingBranch(field: 'headBranch' | 'baseBranch', name: string | undefined): SyncError {
  return refused('branch_not_found', `${field}: ${name} does not exist on the remote`);
}

type Branches = Pick<NewPullRequest, 'headBranch' | 'baseBranch'>;

export function nothingToMerge({ headBranch, baseBranch }: Branches): SyncError {
  return refused('no_commits_between', `${headBranch} → ${baseBranch}: there is nothing to merge`);
}

/** @param sign before the number of the pull request, as the vendor writes it */
export function alreadyExists(
  { headBranch, baseBranch }: Branches,
  sign: string,
  found: Standing | undefined,
): SyncError {
  const name = found === undefined ? '' : `: ${sign}${found.number} ${found.url ?? ''}`.trimEnd();
  const branches = `${headBranch} → ${baseBranch}`;
  return refused('pull_request_exists', `an open pull request for ${branches} exists already${name}`);
}

/** What a vendor says of members' writes. */
export interface GitWrites {
  readonly title: string;
  readonly publicHost: string;
  /** Parts that its pull requests do not have. */
  readonly lacks?: readonly ('labels' | 'assignees')[];
  /** States that an edit may ask for. */
  readonly takes: readonly PullRequestState[];
  /** Reduces a text to what counts there: texts that mean the same become equal. */
  plain?(text: string): string;
  /** What is wanted, in the words that the provider uses. */
  asStored?(wanted: Partial<PullRequestEdit>): Partial<PullRequestEdit>;
  connect(visit: MemberRequest, deps: ConnectionDeps): MemberRepository;
}

export interface MemberRequest {
  readonly access: MemberAccess;
  /** Without the host. */
  readonly repoId: string;
  readonly signal: AbortSignal;
}

/** An open request between two branches: there is one at most. */
interface Standing {
  readonly number: number;
  readonly url?: string | undefined;
}

/** What a step did; undefined where there was nothing to do. */
interface Done {
  /** The pull request after the step; absent where the provider answered with something else. */
  readonly current?: unknown;
}
export type Step = () => Promise<Done | undefined>;

/** One member at one repository: the requests to the provider. Every method throws `SyncError`. */
export interface MemberRepository {
  hasBranch(branch: string): Promise<boolean>;
  /** Checks what would prevent it. Resolves with a function that creates the pull request; the engine calls that once. */
  opening(wanted: NewPullRequest): Promise<() => Promise<unknown>>;
  /** Steps for what only a pull request that exists can get. */
  afterOpening?(wanted: NewPullRequest, number: string): readonly Step[];
  findOpen(wanted: Branches): Promise<Standing | undefined>;
  /** Reads a pull request, as the vendor tells it. */
  read(number: string): Promise<unknown>;
  editing(edit: PullRequestEdit, present: unknown): Promise<readonly Step[]>;
  /** May throw `delivery_malformed`. */
  pullOf(content: unknown): PullRequest;
  /** An error for what the vendor left out without saying so. */
  dropped?(held: PullRequest, wanted: Partial<PullRequestEdit>): SyncError | undefined;
}
