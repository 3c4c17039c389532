import { asSyncError, SyncError } from '../../model/errors.ts';
import { GIT_PROVIDERS, type GitProviderId } from '../../model/git-providers.ts';
import type { PullRequest } from '../../model/item.ts';
import type {
  ConnectionDeps,
  GitProvider,
  MemberAccess,
  NewPullRequest,
  PullRequestEdit,
  WrittenPullRequest,
} from '../connector.ts';

/** The part of members' writes that differs between git providers. */
export interface GitWrites {
  /** Removes differences that the vendor ignores, so that texts with the same meaning become equal. */
  normalize?(text: string): string;
  /** Converts an edit to the values that the vendor reports after it. */
  asStored?(edit: Partial<PullRequestEdit>): Partial<PullRequestEdit>;
  connect(request: MemberRequest, deps: ConnectionDeps): MemberRepository;
}

export interface MemberRequest {
  readonly access: MemberAccess;
  /** Without the host. */
  readonly repoId: string;
  readonly signal: AbortSignal;
}

/** The requests of one member to one repository. Every method throws `SyncError`. */
export interface MemberRepository {
  hasBranch(branch: string): Promise<boolean>;
  /** Checks the preconditions. Resolves with a function that creates the pull request; the engine calls it once. */
  prepareCreation(pull: NewPullRequest): Promise<() => Promise<unknown>>;
  /** Returns steps for fields that only an existing pull request can have. */
  stepsAfterCreation?(pull: NewPullRequest, number: string): readonly Step[];
  findOpen(branches: Branches): Promise<OpenPullRequest | undefined>;
  read(number: string): Promise<unknown>;
  /** Resolves with the steps of an edit. @param before the pull request in the vendor's form */
  editSteps(edit: PullRequestEdit, before: unknown): Promise<readonly Step[]>;
  /** Throws `delivery_malformed`. */
  pullOf(content: unknown): PullRequest;
  /** Returns an error for a change that the vendor ignored without an error. */
  ignoredChange?(pull: PullRequest, edit: Partial<PullRequestEdit>): SyncError | undefined;
}

/** One request of a write. Resolves with undefined if there was nothing to do, and without `current` if the answer lacks it. */
export type Step = () => Promise<{ readonly current?: unknown } | undefined>;

/** An open pull request between two branches; the vendor allows only one. */
interface OpenPullRequest {
  readonly number: number;
  readonly url?: string | undefined;
}

type Branches = Pick<NewPullRequest, 'headBranch' | 'baseBranch'>;

/**
 * Creates the writes of members at a git provider. No request is sent twice: after an unknown outcome, the pull request is read
 * and compared with what was requested.
 */
export function createGitProvider(
  { id: provider, publicHost }: { readonly id: GitProviderId; readonly publicHost: string },
  vendor: GitWrites,
  deps: ConnectionDeps,
): GitProvider {
  const connect = (access: MemberAccess, repoId: string, signal: AbortSignal) => {
    const hostPrefix = `${access.host}:`;
    const id = repoId.startsWith(hostPrefix) ? repoId.slice(hostPrefix.length) : repoId;
    return vendor.connect({ access, repoId: id, signal }, deps);
  };
  const withRepoId = ({ host }: MemberAccess, written: Written): WrittenPullRequest => {
    const { repoId } = written.pullRequest;
    return { repoId: host === publicHost ? repoId : `${host}:${repoId}`, ...written };
  };
  return {
    hasBranch: async (access, { repoId, branch }, signal) => connect(access, repoId, signal).hasBranch(branch),
    async openPullRequest(access, pull, signal) {
      requireSupported(provider, pull);
      return withRepoId(access, await open(vendor, connect(access, pull.repoId, signal), pull));
    },
    async editPullRequest(access, edit, signal) {
      requireSupported(provider, edit);
      if (!/^[1-9]\d{0,14}$/.test(edit.identifier)) throw refused('validation_failed', 'identifier: expected a number');
      return withRepoId(access, await applyEdit(vendor, connect(access, edit.repoId, signal), edit));
    },
  };
}

type Written = Omit<WrittenPullRequest, 'repoId'>;

function requireSupported(provider: GitProviderId, { state, ...fields }: Partial<PullRequestEdit>): void {
  const { title, lacks = [], declines } = GIT_PROVIDERS[provider];
  const field = lacks.find((name) => fields[name] !== undefined);
  if (field !== undefined) throw refused('unsupported_field', `${field}: ${title} has none`);
  if (state === undefined || state === 'open' || state === 'closed' || (state === 'declined' && declines)) return;
  throw refused(
    'unsupported_field',
    `state: ${title} does not accept "${state}" here; merge a pull request at ${title} itself`,
  );
}

async function open(vendor: GitWrites, repository: MemberRepository, pull: NewPullRequest): Promise<Written> {
  const send = await repository.prepareCreation(pull);
  const created = await send().catch((thrown: unknown) => adopt(repository, pull, thrown));
  const { identifier } = parse(repository, created);
  const steps = repository.stepsAfterCreation?.(pull, identifier) ?? [];
  const outcome = await run(repository, identifier, created, steps);
  const requested = {
    labels: nonEmpty(pull.labels),
    assignees: nonEmpty(pull.assignees),
    reviewers: nonEmpty(pull.reviewers),
  };
  return settle(vendor, repository, outcome, requested);
}

/** Reads the pull request after a creation without an answer, and throws the error if there is none. */
async function adopt(repository: MemberRepository, branches: Branches, thrown: unknown): Promise<unknown> {
  const error = asSyncError(thrown);
  if (!hasUnknownOutcome(error)) throw error;
  const found = await repository.findOpen(branches).catch(() => undefined);
  if (found === undefined) throw error;
  return repository.read(String(found.number));
}

async function applyEdit(vendor: GitWrites, repository: MemberRepository, edit: PullRequestEdit): Promise<Written> {
  const before = await repository.read(edit.identifier);
  const steps = await repository.editSteps(edit, before);
  const outcome = await run(repository, edit.identifier, before, steps);
  const { failure, hasWritten } = outcome;
  if (failure && !hasWritten && !hasUnknownOutcome(failure)) throw failure;
  return settle(vendor, repository, outcome, edit);
}

/** Runs the steps in order, up to the first that fails. Reads the pull request afterwards if its state is not known. */
async function run(repository: MemberRepository, number: string, before: unknown, steps: readonly Step[]) {
  let [current, hasWritten, isStale] = [before, false, false];
  let failure: SyncError | undefined;
  for (const step of steps) {
    try {
      const result = await step();
      if (!result) continue;
      [current, hasWritten, isStale] = [result.current ?? current, true, result.current === undefined];
    } catch (thrown) {
      failure = asSyncError(thrown);
      isStale = hasWritten || hasUnknownOutcome(failure);
      break;
    }
  }
  if (isStale) current = await repository.read(number).catch(() => current);
  return { current, hasWritten, failure };
}

function settle(
  vendor: GitWrites,
  repository: MemberRepository,
  { current, failure }: Awaited<ReturnType<typeof run>>,
  requested: Partial<PullRequestEdit>,
): Written {
  const pullRequest = parse(repository, current);
  const ignored = repository.ignoredChange?.(pullRequest, requested);
  const isDone = failure === undefined || (hasUnknownOutcome(failure) && isApplied(vendor, requested, pullRequest));
  const error = isDone ? ignored : failure;
  return { pullRequest, ...(error && { refused: error }) };
}

/** Throws `answer_malformed`, and not `delivery_malformed`, because the content is an answer. */
function parse(repository: MemberRepository, content: unknown): PullRequest {
  try {
    return repository.pullOf(content);
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'delivery_malformed') throw error;
    throw new SyncError('answer_malformed', `a pull request: ${error.message}`, { cause: error });
  }
}

function hasUnknownOutcome({ code }: SyncError): boolean {
  return code === 'outcome_unknown' || code === 'server_failed';
}

const TEXTS = ['title', 'description', 'baseBranch'] as const;
const LISTS = ['labels', 'assignees', 'reviewers'] as const;
const VALUES = ['draft', 'state'] as const;

/** Whether a pull request has all that an edit requested. */
function isApplied(vendor: GitWrites, edit: Partial<PullRequestEdit>, pull: PullRequest): boolean {
  const requested = vendor.asStored?.(edit) ?? edit;
  const normalized = (text: string | null | undefined) => {
    const lines = (text ?? '').replace(/\r\n?/g, '\n').trim();
    return vendor.normalize?.(lines) ?? lines;
  };
  return (
    TEXTS.every(
      (field) => requested[field] === undefined || normalized(requested[field]) === normalized(pull[field]),
    ) &&
    LISTS.every((field) => firstDifference(requested[field], pull[field] ?? []) === undefined) &&
    VALUES.every((field) => requested[field] === undefined || requested[field] === pull[field])
  );
}

/** Returns a requested name that is missing, else a current name that was not requested. Ignores case. */
export function firstDifference(
  requested: readonly string[] | undefined,
  current: readonly string[],
): string | undefined {
  return requested && (without(requested, current)[0] ?? without(current, requested)[0]);
}

/** Returns the names that are not among the others. Ignores case. */
export function without(names: readonly string[], others: readonly string[]): readonly string[] {
  const excluded = new Set(others.map((name) => name.trim().toLowerCase()));
  return names.filter((name) => !excluded.has(name.trim().toLowerCase()));
}

export function isEmpty(body: object): boolean {
  return Object.values(body).every((value) => value === undefined);
}

export function nonEmpty(names: readonly string[] | undefined): readonly string[] | undefined {
  return names?.length === 0 ? undefined : names;
}

export function refused(errorCode: string, message: string): SyncError {
  return new SyncError('refused', message, { errorCode, status: 422 });
}

export function missingBranch(field: 'headBranch' | 'baseBranch', name: string | undefined): SyncError {
  return refused('branch_not_found', `${field}: ${name} does not exist on the remote`);
}

export function noCommitsBetween({ headBranch, baseBranch }: Branches): SyncError {
  return refused('no_commits_between', `${headBranch} → ${baseBranch}: there is nothing to merge`);
}

/** @param sign before the number of the pull request, as the vendor writes it */
export function alreadyExists(
  { headBranch, baseBranch }: Branches,
  sign: string,
  found: OpenPullRequest | undefined,
): SyncError {
  const name = found === undefined ? '' : `: ${sign}${found.number} ${found.url ?? ''}`.trimEnd();
  const branches = `${headBranch} → ${baseBranch}`;
  return refused('pull_request_exists', `an open pull request for ${branches} exists already${name}`);
}
