import { createHmac } from 'node:crypto';
import { workItemKey } from '../../../../src/model/item.ts';
import { githubIssues } from '../model-providers/git.ts';
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
  named,
  present,
  recordOf,
  type Tracker,
  type Vendor,
  type VendorAnswer,
} from './provider.ts';

const REPOSITORY = { id: 5_001, name: 'app', full_name: 'acme/app', private: true, archived: false, fork: false };

export function githubVendor(secret: string): Vendor {
  return {
    id: 'github',
    options: (apiUrl) => ({ apiUrl, token: 'a-token-of-the-tests', repositories: ['acme/app'] }),
    said: ({ fields, merged }) => ({ ...mirrored(fields), ...named(fields), merged }),
    hook(pull, event, delivery) {
      if (event === 'commented') return signed(secret, 'issue_comment', delivery, commentOn(pull));
      const isReview = event === 'submitted';
      const payload = {
        action: event,
        ...(isReview ? { review: { id: 1, state: 'commented' } } : { number: pull.number }),
        pull_request: ofHook(pull, isReview),
        repository: REPOSITORY,
        sender: { login: 'mona', id: 7 },
      };
      return signed(secret, isReview ? 'pull_request_review' : 'pull_request', delivery, payload);
    },
    answer: (asked, held) => answer(asked, held, false),
    record: (pull) => ({ ...recordOf(pull, 'github', String(REPOSITORY.id)), ...named(pull.fields) }),
  };
}

/** The repository with its issues, which share their numbers with its pull requests. */
export function githubTracker(secret: string): Vendor & Tracker {
  const vendor = githubVendor(secret);
  return {
    ...vendor,
    secret,
    options: (apiUrl) => ({ ...vendor.options(apiUrl), issues: true }),
    issueHook(issue, { event, delivery }) {
      const payload = {
        action: { created: 'opened', updated: 'edited', deleted: 'deleted' }[event],
        issue: ofIssue(issue),
        repository: REPOSITORY,
      };
      return signed(secret, 'issues', delivery, payload);
    },
    answer: (asked, held) => answer(asked, held, true),
    itemKey: ({ number }) => workItemKey('github', 'github.com', String(idOf(number))),
    page: ({ number }) => `https://github.com/acme/app/issues/${number}`,
    calledAt(id, issue) {
      return id === 'github' ? `#${issue.number}` : this.page(issue);
    },
  };
}

function signed(secret: string, event: string, delivery: string, payload: object): Hook {
  const body = JSON.stringify(payload);
  const headers = {
    'content-type': 'application/json',
    'x-github-event': event,
    'x-github-delivery': delivery,
    'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
  };
  return { headers, body };
}

/** No two issues of GitHub share it. */
const idOf = (number: number) => 70_000 + number;

function ofIssue({ number, fields, created, updated }: HeldIssue): object {
  const { title, description, state, labels } = fields;
  const rawState = state === 'open' ? 'open' : 'closed (completed)';
  const told = { title, description, labels, rawState, assignees: [], type: null };
  const { issue } = githubIssues.fetched(told, updated).payload as { issue: object };
  return altered(issue, {
    ...{ id: idOf(number), number, created_at: time(created) },
    html_url: `https://github.com/acme/app/issues/${number}`,
    repository_url: 'https://api.github.com/repos/acme/app',
  }) as object;
}

/** Times are whole seconds there. */
const time = (at: number) => `${new Date(at).toISOString().slice(0, 19)}Z`;
const logins = (names: readonly string[]) => names.map((login, index) => ({ login, id: 100 + index }));

function ofHook(pull: HeldPull, isReview: boolean): object {
  const whole = { ...ofList(pull), merged: pull.fields.state === 'merged' };
  if (!isReview) return whole;
  // The pull request within a review lacks these.
  const { merged: _, ...rest } = whole;
  return rest;
}

/** It shows the pull request as an issue, without branches and reviewers. */
function commentOn(pull: HeldPull): object {
  const { draft, merged_at, ...whole } = ofList(pull);
  const { requested_reviewers: _people, requested_teams: _teams, head: _head, base: _base, ...issue } = whole;
  const user = { login: 'cho', id: 8 };
  const times = { created_at: time(pull.updated), updated_at: time(pull.updated) };
  return {
    action: 'created',
    issue: { ...issue, draft, pull_request: { html_url: issue.html_url, merged_at } },
    comment: { id: 300 + pull.number, user, body: 'What about this?', ...times },
    repository: REPOSITORY,
    sender: user,
  };
}

/** The list leaves out `merged`. */
function ofList({ number, fields, created, updated, merged }: HeldPull) {
  const { title, description, state, draft, reviewers, labels, assignees, head } = fields;
  return {
    ...{ id: 90_000 + number, number, title, body: description, draft },
    state: state === 'open' ? 'open' : 'closed',
    html_url: `https://github.com/acme/app/pull/${number}`,
    user: { login: 'mona', id: 7 },
    created_at: time(created),
    updated_at: time(updated),
    closed_at: state === 'open' ? null : time(updated),
    merged_at: merged === null ? null : time(merged),
    labels: labels.map((name) => ({ name })),
    assignees: logins(assignees),
    requested_reviewers: logins(reviewers),
    requested_teams: [],
    head: { ref: `branch-${number}`, sha: head.padEnd(40, '0').slice(0, 40), repo: REPOSITORY },
    base: { ref: 'main', sha: '1'.repeat(40), repo: REPOSITORY },
  };
}

function answer({ url }: Asked, held: Held, withIssues: boolean): VendorAnswer | undefined {
  const path = url.pathname.replace(/^\/repositories\/5001/, '/repos/acme/app');
  if (path === '/repos/acme/app') return { body: { ...REPOSITORY, has_issues: withIssues } };
  const one = held.pulls.get(Number(/^\/repos\/acme\/app\/pulls\/(\d+)$/.exec(path)?.[1]));
  if (one) return { body: { ...ofList(one), merged: one.fields.state === 'merged' }, shown: [one] };
  const ofCommits = held.pulls.get(Number(/^\/repos\/acme\/app\/pulls\/(\d+)\/commits$/.exec(path)?.[1]));
  if (ofCommits) return { body: [{ sha: ofCommits.fields.head, commit: { message: messageOf(ofCommits) } }] };
  if (path === '/repos/acme/app/pulls') return pageOf(url, [...held.pulls.values()], ofList);
  return withIssues ? answerOfIssues(url, path, held) : undefined;
}

/** Pull requests are in the list of issues too. */
function answerOfIssues(url: URL, path: string, { pulls, issues }: Held): VendorAnswer | undefined {
  const issue = issues.get(Number(/^\/repos\/acme\/app\/issues\/(\d+)$/.exec(path)?.[1]));
  if (issue) return issue.isDeleted ? { status: 410, body: { message: 'deleted' } } : { body: ofIssue(issue) };
  if (path !== '/repos/acme/app/issues') return undefined;
  return pageOf(url, [...pulls.values(), ...present(issues)], (each) =>
    isPull(each) ? { ...ofList(each), pull_request: { html_url: '' } } : ofIssue(each),
  );
}

function pageOf<Element extends HeldPull | HeldIssue>(
  url: URL,
  elements: readonly Element[],
  show: (element: Element) => object,
): VendorAnswer {
  const query = url.searchParams;
  const page = Number(query.get('page') ?? 1);
  const since = Date.parse(query.get('since') ?? '1970-01-01T00:00:00Z');
  const found = listed(elements, {
    where: ({ fields, updated }) => (query.get('state') === 'all' || fields.state === 'open') && updated >= since,
    by: query.get('sort') === 'updated' ? 'updated' : 'created',
    isDescending: query.get('direction') === 'desc',
    ...{ page, perPage: Number(query.get('per_page') ?? 30) },
  });
  const all: readonly (HeldPull | HeldIssue)[] = found.shown;
  return { body: found.shown.map(show), shown: all.filter(isPull), headers: linkHeader(url, page, found) };
}
