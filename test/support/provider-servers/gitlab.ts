import {
  type Asked,
  type Held,
  type HeldPull,
  type Hook,
  linkHeader,
  listed,
  messageOf,
  mirrored,
  type Vendor,
  type VendorAnswer,
} from './provider.ts';

const PROJECT = { id: 80_200, name: 'app', path_with_namespace: 'acme/app', web_url: 'https://gitlab.com/acme/app' };
const BY_NAME = `/projects/${encodeURIComponent('acme/app')}`;

/** GitLab, gitlab.com, the project `acme/app`. */
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
    record: ({ number, fields }) => ({
      ...{ provider: 'gitlab', repoId: String(PROJECT.id), identifier: String(number) },
      ...{ title: fields.title, description: fields.description, state: fields.state, draft: fields.draft },
      ...{ headBranch: `branch-${number}`, baseBranch: 'main' },
      reviewers: fields.reviewers.toSorted(),
      ...named(fields),
    }),
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

function named({ labels, assignees }: HeldPull['fields']) {
  return { labels: labels.toSorted(), assignees: assignees.toSorted() };
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

function answer({ url }: Asked, { pulls }: Held): VendorAnswer | undefined {
  const path = url.pathname.replace(BY_NAME, `/projects/${PROJECT.id}`);
  if (path === `/projects/${PROJECT.id}`) return { body: { ...PROJECT, archived: false } };
  const [, list, number] = new RegExp(`^/projects/${PROJECT.id}/(merge_requests)(?:/(\\d+))?$`).exec(path) ?? [];
  const commits = pulls.get(
    Number(new RegExp(`^/projects/${PROJECT.id}/merge_requests/(\\d+)/commits$`).exec(path)?.[1]),
  );
  if (commits) return { body: [{ id: commits.fields.head, message: messageOf(commits) }] };
  if (list === undefined) return undefined;
  if (number === undefined) return pageOf(url, [...pulls.values()]);
  const pull = pulls.get(Number(number));
  return pull && { body: ofRest(pull), shown: [pull] };
}

function pageOf(url: URL, pulls: readonly HeldPull[]): VendorAnswer {
  const query = url.searchParams;
  const page = Number(query.get('page') ?? 1);
  const since = Date.parse(query.get('updated_after') ?? '1970-01-01T00:00:00Z');
  const wanted = query.getAll('iids[]').map(Number);
  const isWanted = ({ number }: HeldPull) => wanted.length === 0 || wanted.includes(number);
  const isInState = ({ fields }: HeldPull) => query.get('state') === 'all' || fields.state === 'open';
  const found = listed(pulls, {
    where: (each) => isWanted(each) && isInState(each) && each.updated >= since,
    by: query.get('order_by') === 'updated_at' ? 'updated' : 'created',
    isDescending: query.get('sort') !== 'asc',
    ...{ page, perPage: Number(query.get('per_page') ?? 20) },
  });
  const counts = { 'x-page': String(page), 'x-total-pages': String(found.lastPage) };
  const headers = { ...counts, ...linkHeader(url, page, found) };
  return { body: found.shown.map(ofRest), shown: found.shown, headers };
}
