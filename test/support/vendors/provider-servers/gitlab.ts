import { workItemKey } from '../../../../src/model/item.ts';
import { gitlabIssues } from '../model-providers/git.ts';
import { altered } from '../model-providers/provider.ts';
import {
  type Asked,
  type Held,
  type HeldIssue,
  type HeldPull,
  type Hook,
  isPull,
  linkHeader,
  listed,
  messageOf,
  mirrored,
  NO_MORE,
  named,
  present,
  recordOf,
  type Tracker,
  type Vendor,
  type VendorAnswer,
} from './provider.ts';

const PROJECT = { id: 80_200, name: 'app', path_with_namespace: 'acme/app', web_url: 'https://gitlab.com/acme/app' };
const BY_NAME = `/projects/${encodeURIComponent('acme/app')}`;

export function gitlabVendor(secret: string): Vendor {
  return {
    id: 'gitlab',
    options: (apiUrl) => ({ apiUrl, token: 'a-token-of-the-tests', projects: ['acme/app'] }),
    // Webhooks name no author and no time of merging.
    said: ({ fields, merged }, by) => ({
      ...{ ...mirrored(fields), ...named(fields) },
      ...(by === 'api' && { author: 'ada', merged }),
    }),
    hook(pull, event, delivery) {
      return proven(secret, 'Merge Request Hook', delivery, ofHook(pull, event));
    },
    answer,
    record: (pull) => ({ ...recordOf(pull, 'gitlab', String(PROJECT.id)), ...named(pull.fields) }),
  };
}

/** The project with its issues. No webhook reports a deletion. */
export function gitlabTracker(secret: string): Vendor & Tracker {
  const vendor = gitlabVendor(secret);
  return {
    ...vendor,
    secret,
    options: (apiUrl) => ({ ...vendor.options(apiUrl), issues: true }),
    issueHook(issue, { event, delivery }) {
      if (event === 'deleted') return undefined;
      return proven(secret, 'Issue Hook', delivery, ofIssueHook(issue, event === 'created' ? 'open' : 'update'));
    },
    itemKey: ({ number }) => workItemKey('gitlab', 'gitlab.com', String(idOf(number))),
    page: ({ number }) => `${PROJECT.web_url}/-/issues/${number}`,
    calledAt(id, issue) {
      return id === 'gitlab' ? `#${issue.number}` : this.page(issue);
    },
  };
}

function proven(secret: string, event: string, delivery: string, payload: object): Hook {
  const headers = {
    'content-type': 'application/json',
    'x-gitlab-event': event,
    'x-gitlab-token': secret,
    'idempotency-key': delivery,
  };
  return { headers, body: JSON.stringify(payload) };
}

/** No two issues of GitLab share it. */
const idOf = (number: number) => 440_000 + number;
const stateOf = ({ fields }: HeldIssue) => ({ ...fields, assignees: [] });

function ofIssueHook(issue: HeldIssue, action: string): object {
  const { number, created, updated } = issue;
  return altered(gitlabIssues.webhook(stateOf(issue), updated).payload, {
    project: PROJECT,
    'object_attributes.id': idOf(number),
    'object_attributes.iid': number,
    'object_attributes.action': action,
    'object_attributes.created_at': hookTime(created),
    'object_attributes.url': `${PROJECT.web_url}/-/issues/${number}`,
  }) as object;
}

function ofIssue(issue: HeldIssue): object {
  const { number, created, updated } = issue;
  return altered(gitlabIssues.fetched(stateOf(issue), updated).payload, {
    ...{ id: idOf(number), iid: number, project_id: PROJECT.id, created_at: new Date(created).toISOString() },
    references: { short: `#${number}`, full: `acme/app#${number}` },
    web_url: `${PROJECT.web_url}/-/issues/${number}`,
  }) as object;
}

const STATES = { open: 'opened', closed: 'closed', merged: 'merged' } as const;
const people = (names: readonly string[]) => names.map((username, index) => ({ id: 300 + index, username }));
/** Webhooks write times so, to the second. */
const hookTime = (at: number) => `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

function common({ number, fields }: HeldPull) {
  const { title, description, draft } = fields;
  return {
    ...{ id: 990_000 + number, iid: number, title, description, draft, work_in_progress: draft },
    state: STATES[fields.state],
    ...{ source_branch: `branch-${number}`, target_branch: 'main' },
    ...{ source_project_id: PROJECT.id, target_project_id: PROJECT.id },
  };
}

function ofHook(pull: HeldPull, event: string): object {
  const { fields, created, updated, number } = pull;
  return {
    object_kind: 'merge_request',
    event_type: 'merge_request',
    user: { id: 301, username: 'ada' },
    project: PROJECT,
    object_attributes: {
      ...common(pull),
      author_id: 301,
      assignee_ids: people(fields.assignees).map(({ id }) => id),
      reviewer_ids: people(fields.reviewers).map(({ id }) => id),
      created_at: hookTime(created),
      updated_at: hookTime(updated),
      url: `${PROJECT.web_url}/-/merge_requests/${number}`,
      last_commit: { id: fields.head.padEnd(40, '0').slice(0, 40) },
      action: event,
    },
    labels: fields.labels.map((title) => ({ title })),
    // These are left out where there is nobody.
    ...(fields.assignees.length > 0 && { assignees: people(fields.assignees) }),
    ...(fields.reviewers.length > 0 && { reviewers: people(fields.reviewers) }),
  };
}

function ofRest(pull: HeldPull): object {
  const { fields, created, updated, merged, number } = pull;
  return {
    ...common(pull),
    project_id: PROJECT.id,
    author: { id: 301, username: 'ada' },
    created_at: new Date(created).toISOString(),
    updated_at: new Date(updated).toISOString(),
    merged_at: merged === null ? null : new Date(merged).toISOString(),
    assignees: people(fields.assignees),
    reviewers: people(fields.reviewers),
    labels: fields.labels,
    sha: fields.head.padEnd(40, '0').slice(0, 40),
    references: { short: `!${number}`, full: `acme/app!${number}` },
    web_url: `${PROJECT.web_url}/-/merge_requests/${number}`,
  };
}

function answer({ url }: Asked, { pulls, issues }: Held): VendorAnswer | undefined {
  const path = url.pathname.replace(BY_NAME, `/projects/${PROJECT.id}`);
  if (path === `/projects/${PROJECT.id}`) return { body: { ...PROJECT, archived: false } };
  const [, list, number] = new RegExp(`^/projects/${PROJECT.id}/(merge_requests|issues)(?:/(\\d+))?$`).exec(path) ?? [];
  const commits = pulls.get(
    Number(new RegExp(`^/projects/${PROJECT.id}/merge_requests/(\\d+)/commits$`).exec(path)?.[1]),
  );
  if (commits) return { body: [{ id: commits.fields.head, message: messageOf(commits) }] };
  if (list === undefined) return undefined;
  if (number === undefined)
    return list === 'issues' ? pageOf(url, present(issues), ofIssue) : pageOf(url, [...pulls.values()], ofRest);
  const pull = pulls.get(Number(number));
  if (list === 'merge_requests') return pull && { body: ofRest(pull), shown: [pull] };
  const issue = issues.get(Number(number));
  return issue && (issue.isDeleted ? NO_MORE : { body: ofIssue(issue) });
}

function pageOf<Element extends HeldPull | HeldIssue>(
  url: URL,
  elements: readonly Element[],
  show: (element: Element) => object,
): VendorAnswer {
  const query = url.searchParams;
  const page = Number(query.get('page') ?? 1);
  const since = Date.parse(query.get('updated_after') ?? '1970-01-01T00:00:00Z');
  const wanted = query.getAll('iids[]').map(Number);
  const isWanted = ({ number }: Element) => wanted.length === 0 || wanted.includes(number);
  const isInState = ({ fields }: Element) => query.get('state') === 'all' || fields.state === 'open';
  const found = listed(elements, {
    where: (each) => isWanted(each) && isInState(each) && each.updated >= since,
    by: query.get('order_by') === 'updated_at' ? 'updated' : 'created',
    isDescending: query.get('sort') !== 'asc',
    ...{ page, perPage: Number(query.get('per_page') ?? 20) },
  });
  const counts = { 'x-page': String(page), 'x-total-pages': String(found.lastPage) };
  const headers = { ...counts, ...linkHeader(url, page, found) };
  const all: readonly (HeldPull | HeldIssue)[] = found.shown;
  return { body: found.shown.map(show), shown: all.filter(isPull), headers };
}
