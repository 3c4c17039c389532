import { sql } from 'kysely';
import type { GitProvider, MemberAccess, WrittenPullRequest } from '../../connectors/connector.ts';
import { asSyncError, type SyncError } from '../../model/errors.ts';
import { GIT_PROVIDERS, type GitProviderId } from '../../model/git-providers.ts';
import { type ApiErrorCode, type CheckedBody, ERROR_CODES, ROUTES, type Routes } from '../../workspace-api/contract.ts';
import type { Caller } from '../access/caller-rights.ts';
import { ApiError, invalid, notFound } from '../http/api-error.ts';
import { type Call, Existing, type Service } from '../http/call.ts';
import { findMemberAccess } from '../keys/keys.ts';
import { readPage, type Row as StoredRow, shownBy, timeNow, writeStrings } from '../storage/rows.ts';
import type { Query, Write } from '../storage/transactions.ts';

type Row = StoredRow<'pull_requests'>;
type Given = CheckedBody<Routes['createPullRequest']>;
type NaturalKey = Pick<Row, 'workspace_id' | 'provider' | 'repo_id' | 'identifier'>;

export const pullRequestHandlers = {
  listPullRequests,
  createPullRequest,
  updatePullRequest,
  listPullRequestRecords: listPullRequests,
  recordPullRequest: recordExisting,
};

const pullRequestOf = shownBy(ROUTES.createPullRequest);

/** Selects pull requests with the tasks that link to the address, found by index in the same statement. */
function selectPullRequests(query: Query, workspaceId: string) {
  return query
    .selectFrom('pull_requests')
    .selectAll()
    .select(
      sql<string>`(select json_group_array(w.task_id order by w.seq) from work_items w
        where w.workspace_id = pull_requests.workspace_id and w.url = pull_requests.url)`.as('task_ids'),
    )
    .where('workspace_id', '=', workspaceId);
}

async function listPullRequests(
  service: Service,
  { workspaceId, query }: Pick<Call<'listPullRequests'>, 'workspaceId' | 'query'>,
) {
  let rows = selectPullRequests(service.database.query, workspaceId);
  if (query.provider) rows = rows.where('provider', '=', query.provider);
  if (query.repoId) rows = rows.where('repo_id', '=', query.repoId);
  if (query.state) rows = rows.where('state', 'in', query.state);
  if (query.headBranch) rows = rows.where('head_branch', '=', query.headBranch);
  const { given, nextCursor } = await readPage(rows, query);
  return { pullRequests: given.map(pullRequestOf), nextCursor };
}

/** Opens a pull request at the provider; by our extension, records it if the body has an `identifier` (W59). */
async function createPullRequest(service: Service, call: Call<'createPullRequest'>) {
  const { identifier } = call.body;
  if (identifier !== undefined && !service.variant.isLiteral)
    return recordExisting(service, { ...call, body: { ...call.body, identifier } });
  checkProviderFields(call.body);
  return openPullRequest(service, call);
}

/** Upserts the record of a pull request that exists at the provider (W74). */
async function recordExisting(
  service: Service,
  { body, workspaceId, caller }: Pick<Call<'recordPullRequest'>, 'body' | 'workspaceId' | 'caller'>,
) {
  checkProviderFields(body);
  return recordPullRequest(service, caller, naturalKey(workspaceId, body), body);
}

/** Opens a pull request as the member, then records it as the provider has it. */
async function openPullRequest(service: Service, call: Call<'createPullRequest'>) {
  const { body } = call;
  // A record may have equal names: its head may lie in a fork.
  if (body.headBranch === body.baseBranch) throw invalid('headBranch: must differ from baseBranch');
  const member = await memberAt(service, call, body.provider);
  if (member === undefined)
    throw new ApiError('provider_not_connected', `no ${body.provider} token is stored for this member`);
  const asked = { fields: body, at: timeNow(service.clock) };
  const written = await openAtProvider(service, member, body);
  const record = await recordWritten(service, call, { written, asked, otherwise: body });
  tellRefused(written, body.provider);
  return record;
}

/** Edits a pull request for a person: first at the provider, if the member has a token there; otherwise the record only (W59). */
async function updatePullRequest(service: Service, call: Call<'updatePullRequest'>) {
  const { body, workspaceId } = call;
  checkProviderFields(body);
  const present = await findRecord(service.database.query, naturalKey(workspaceId, body));
  if (present === undefined) throw notFound('pull request');
  refuseDeclined(present);
  const member = await memberAt(service, call, body.provider);
  if (member === undefined) return editRecord(service, call);
  const asked = { fields: body, at: timeNow(service.clock) };
  const written = await editAtProvider(service, member, body);
  const { title, head_branch: headBranch, base_branch: baseBranch } = present;
  const record = await recordWritten(service, call, { written, asked, otherwise: { title, headBranch, baseBranch } });
  tellRefused(written, body.provider);
  return record;
}

/** A person's request to a provider, and its time. */
interface Asked {
  readonly fields: Fields;
  readonly at: string;
}

interface Outcome {
  readonly written: WrittenPullRequest;
  readonly asked: Asked;
  /** Replaces values that the provider left out. */
  readonly otherwise: Pick<Given, 'title' | 'headBranch' | 'baseBranch'>;
}

/** Records the values in the provider's answer. */
async function recordWritten(
  service: Service,
  { workspaceId, caller }: Pick<Call<'createPullRequest'>, 'workspaceId' | 'caller'>,
  { written: { repoId, pullRequest }, asked, otherwise }: Outcome,
) {
  const { provider } = asked.fields;
  const { repoId: _unprefixed, identifier, reviewers, labels, assignees, ...fields } = pullRequest;
  const given: Given = {
    ...fields,
    provider,
    repoId,
    identifier,
    title: fields.title ?? otherwise.title,
    headBranch: fields.headBranch ?? otherwise.headBranch,
    baseBranch: fields.baseBranch ?? otherwise.baseBranch,
    ...(reviewers && { reviewers: [...reviewers] }),
    ...(labels && { labels: [...labels] }),
    ...(assignees && { assignees: [...assignees] }),
  };
  const key = naturalKey(workspaceId, { provider, repoId, identifier });
  const recorded = await recordPullRequest(service, caller, key, given, asked);
  return recorded instanceof Existing ? recorded.body : recorded;
}

function naturalKey(workspaceId: string, given: { provider: string; repoId: string; identifier: string }): NaturalKey {
  return {
    workspace_id: workspaceId,
    provider: given.provider,
    repo_id: given.repoId,
    identifier: given.identifier,
  };
}

/** Idempotent: an unchanged record is answered without a write. */
async function recordPullRequest(service: Service, caller: Caller, key: NaturalKey, given: Given, asked?: Asked) {
  const now = timeNow(service.clock);
  return service.commits.run(async (write) => {
    const present = await findRecord(write, key);
    if (present === undefined) {
      await write
        .insertInto('pull_requests')
        .values(newRow(key, given, now))
        .execute();
      return tell(service, write, caller, 'pull_request.created', key);
    }
    const changes = changesTo(present, asked ? newsFor(present, given, asked) : columnsOf(given));
    const isFinal = asked !== undefined && present.state === 'declined';
    if (changes === undefined || isFinal) return new Existing(pullRequestOf(present));
    refuseDeclined(present);
    await updateRecord(write, present.seq, { ...changes, updated_at: now });
    return new Existing(await tell(service, write, caller, 'pull_request.updated', key));
  });
}

/** Returns the record after a change, read again because the address and with it the tasks may have changed. */
async function tell(
  service: Service,
  write: Write,
  caller: Caller,
  type: 'pull_request.created' | 'pull_request.updated',
  key: NaturalKey,
) {
  const { workspace_id: workspaceId, provider, repo_id: repoId, identifier } = key;
  const body = pullRequestOf((await findRecord(write, key))!);
  const resource = { id: `${provider}/${repoId}/${identifier}`, provider, repoId, identifier };
  await service.events.record(write, { type, workspaceId, caller, resource, body });
  return body;
}

function findRecord(query: Query, key: NaturalKey) {
  return selectPullRequests(query, key.workspace_id)
    .where('provider', '=', key.provider)
    .where('repo_id', '=', key.repo_id)
    .where('identifier', '=', key.identifier)
    .executeTakeFirst();
}

function newRow(key: NaturalKey, given: Given, now: string): Row {
  return {
    description: null,
    state: 'open',
    draft: 0,
    url: null,
    author: null,
    reviewers: '[]',
    labels: '[]',
    assignees: '[]',
    created_at: now,
    merged_at: null,
    ...columnsOf(given),
    title: given.title,
    head_branch: given.headBranch,
    base_branch: given.baseBranch,
    updated_at: now,
    ...key,
  };
}

type Fields = Partial<Omit<Given, 'repoId' | 'identifier'>> & { provider: string };

/** Returns the columns of the fields in a body; absent fields stay unchanged. */
function columnsOf(given: Fields): Partial<Row> {
  const columns: Partial<Row> = {
    title: given.title,
    description: given.description,
    head_branch: given.headBranch,
    base_branch: given.baseBranch,
    state: stateAt(given.provider, given.state),
    draft: given.draft === undefined ? undefined : given.draft ? 1 : 0,
    url: given.url,
    author: given.author,
    reviewers: given.reviewers && writeStrings(given.reviewers),
    labels: given.labels && writeStrings(given.labels),
    assignees: given.assignees && writeStrings(given.assignees),
    created_at: given.createdAt,
    merged_at: given.mergedAt,
  };
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined));
}

/**
 * Returns the columns to store from an answer. If somebody recorded the provider's state meanwhile, which may be newer, only the
 * requested columns and the empty ones are stored.
 */
function newsFor(present: Row, given: Given, { fields, at }: Asked): Partial<Row> {
  const columns = columnsOf(given);
  if (present.updated_at < at) return columns;
  const wanted = columnsOf(fields);
  return Object.fromEntries(
    Object.entries(columns).filter(([name]) => name in wanted || present[name as keyof Row] === null),
  );
}

/** Returns the columns whose value differs; undefined if there are none. */
function changesTo(present: Row, columns: Partial<Row>): Partial<Row> | undefined {
  const changed = Object.entries(columns).filter(([name, value]) => present[name as keyof Row] !== value);
  return changed.length === 0 ? undefined : Object.fromEntries(changed);
}

async function updateRecord(write: Write, seq: number, columns: Partial<Row>): Promise<void> {
  await write.updateTable('pull_requests').set(columns).where('seq', '=', seq).execute();
}

/** Edits a record for a person. Any edit of a declined request is refused, even one that changes nothing. */
async function editRecord(service: Service, { workspaceId, body, caller }: Call<'updatePullRequest'>) {
  const key = naturalKey(workspaceId, body);
  const now = timeNow(service.clock);
  return service.commits.run(async (write) => {
    const present = await findRecord(write, key);
    if (present === undefined) throw notFound('pull request');
    refuseDeclined(present);
    const changes = changesTo(present, columnsOf(body));
    if (changes === undefined) return pullRequestOf(present);
    const updated = { ...changes, ...mergeTime(present, changes, now), updated_at: now };
    await updateRecord(write, present.seq, updated);
    return tell(service, write, caller, 'pull_request.updated', key);
  });
}

/** A request that an edit merges has the present time; one that is no longer merged has none. */
function mergeTime(present: Row, changes: Partial<Row>, now: string): Partial<Row> {
  if (changes.state === undefined) return {};
  return { merged_at: changes.state === 'merged' ? (present.merged_at ?? now) : null };
}

/** A member at a git provider: whatever is written there is written with the member's own token (W56). */
interface MemberAtProvider {
  readonly git: GitProvider;
  readonly access: MemberAccess;
}

/** The member of the caller's credential; undefined where no token of theirs is stored, or the provider is not served. */
async function memberAt(
  service: Service,
  { workspaceId, caller }: Pick<Call<'createPullRequest'>, 'workspaceId' | 'caller'>,
  provider: string,
): Promise<MemberAtProvider | undefined> {
  const git = service.providers[provider];
  const access = git && (await findMemberAccess(service, workspaceId, caller.userId, provider));
  return access && { git, access };
}

type Opening = Call<'createPullRequest'>['body'];

/** Throws 400 `branch_not_found`, `no_commits_between`, 403, 404, 409 `pull_request_exists`, 502, 504. */
async function openAtProvider(
  service: Service,
  { git, access }: MemberAtProvider,
  wanted: Opening,
): Promise<WrittenPullRequest> {
  const { repoId, headBranch: branch, provider } = wanted;
  try {
    if (!(await git.hasBranch(access, { repoId, branch }, service.ending)))
      throw new ApiError('branch_not_found', `headBranch: ${branch} does not exist on the remote`);
    return await git.openPullRequest(access, wanted, service.ending);
  } catch (error) {
    throw refusalOfProvider(error, provider);
  }
}

/** Throws like `openAtProvider`. */
async function editAtProvider(
  service: Service,
  { git, access }: MemberAtProvider,
  edit: Call<'updatePullRequest'>['body'],
): Promise<WrittenPullRequest> {
  try {
    return await git.editPullRequest(access, edit, service.ending);
  } catch (error) {
    throw refusalOfProvider(error, edit.provider);
  }
}

/** Says what of the request was refused, once what was carried out is recorded. Throws the refusal. */
function tellRefused({ pullRequest, refused }: WrittenPullRequest, provider: string): void {
  if (refused === undefined) return;
  const { errorCode, message, headers } = refusalOfProvider(refused, provider);
  throw new ApiError(errorCode, `#${pullRequest.identifier} was written in part; ${message}`, headers);
}

const BY_CODE: Readonly<Partial<Record<SyncError['code'], ApiErrorCode>>> = {
  unauthorized: 'provider_not_connected',
  forbidden: 'forbidden',
  not_found: 'not_found',
  conflict: 'conflict',
  refused: 'validation_failed',
  outcome_unknown: 'outcome_unknown',
};

/**
 * Converts a git provider's failure for the caller of this API. A limit of the provider is no limit of the workspace: it is 502,
 * so that callers do not slow down their requests to the workspace.
 */
function refusalOfProvider(thrown: unknown, provider: string): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const error = asSyncError(thrown);
  const named = Object.keys(ERROR_CODES).find((code) => code === error.errorCode) as ApiErrorCode | undefined;
  const code = named ?? BY_CODE[error.code] ?? 'provider_unavailable';
  const headers: Record<string, string> = {};
  if (error.retryAfter !== undefined) headers['retry-after'] = String(Math.ceil(error.retryAfter / 1_000));
  return new ApiError(code, `${provider}: ${error.message}`, headers);
}

/** The fields of a record or an edit that a provider may not support. */
interface ProviderFields {
  readonly provider: GitProviderId;
  readonly state?: string;
  readonly reviewers?: readonly string[];
  readonly labels?: readonly string[];
  readonly assignees?: readonly string[];
}

const DECLINING = Object.values(GIT_PROVIDERS)
  .flatMap(({ title, declines }) => (declines ? title : []))
  .join(' and ');

/** Checks the fields that only one provider has or lacks (W54, W58, W60). Throws 400. */
function checkProviderFields(fields: ProviderFields): void {
  const { title, lacks = [], declines, reviewers } = GIT_PROVIDERS[fields.provider];
  if (fields.state === 'declined' && !declines) throw invalid(`state: only ${DECLINING} has declined`);
  const field = lacks.find((name) => fields[name] !== undefined);
  if (field !== undefined) throw new ApiError('unsupported_field', `${field}: ${title} has none`);
  if (reviewers && fields.reviewers?.some((name) => !reviewers.form.test(name)))
    throw invalid(`reviewers: ${title} takes ${reviewers.noun}`);
}

/** Returns the state that a provider gives a pull request for which this one was requested. */
function stateAt(provider: GitProviderId, state: string | undefined): string | undefined {
  return state === 'closed' && GIT_PROVIDERS[provider].declines ? 'declined' : state;
}

/** Declined is final (W55). Throws 409. */
function refuseDeclined(present: { readonly state: string }): void {
  if (present.state !== 'declined') return;
  throw new ApiError('pull_request_declined', 'a declined pull request cannot be changed or reopened');
}
