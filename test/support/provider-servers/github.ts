import { createHmac } from 'node:crypto';
import { type HeldPull, linkHeader, listed, mirrored, type Vendor, type VendorAnswer } from './provider.ts';

const REPOSITORY = { id: 5_001, name: 'app', full_name: 'acme/app', private: true, archived: false, fork: false };

/** GitHub, github.com, the repository `acme/app`. */
export function githubVendor(secret: string): Vendor {
  return {
    id: 'github',
    options: (apiUrl) => ({ apiUrl, token: 'a-token-of-the-tests', repositories: ['acme/app'] }),
    said: ({ fields, merged }) => ({ ...mirrored(fields), ...named(fields), merged }),
    hook(pull, event, delivery) {
      const isReview = event === 'submitted';
      const payload = {
        action: event,
        ...(isReview ? { review: { id: 1, state: 'commented' } } : { number: pull.number }),
        pull_request: ofHook(pull, isReview),
        repository: REPOSITORY,
        sender: { login: 'mona', id: 7 },
      };
      const body = JSON.stringify(payload);
      const headers = {
        'content-type': 'application/json',
        'x-github-event': isReview ? 'pull_request_review' : 'pull_request',
        'x-github-delivery': delivery,
        'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
      };
      return { headers, body };
    },
    answer,
    record: ({ number, fields }) => ({
      ...{ provider: 'github', repoId: String(REPOSITORY.id), identifier: String(number) },
      ...{ title: fields.title, description: fields.description, state: fields.state, draft: fields.draft },
      ...{ headBranch: `branch-${number}`, baseBranch: 'main' },
      reviewers: fields.reviewers.toSorted(),
      ...named(fields),
    }),
  };
}

function named({ labels, assignees }: HeldPull['fields']) {
  return { labels: labels.toSorted(), assignees: assignees.toSorted() };
}

/** Times are whole seconds there. */
const time = (at: number) => `${new Date(at).toISOString().slice(0, 19)}Z`;
const logins = (names: readonly string[]) => names.map((login, index) => ({ login, id: 100 + index }));

function ofHook(pull: HeldPull, isReview: boolean): object {
  const whole = { ...ofList(pull), merged: pull.fields.state === 'merged' };
  if (!isReview) return whole;
  // What a review carries of its pull request leaves these out.
  const { merged: _, ...rest } = whole;
  return rest;
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

function answer(url: URL, pulls: ReadonlyMap<number, HeldPull>): VendorAnswer | undefined {
  const path = url.pathname.replace(/^\/repositories\/5001/, '/repos/acme/app');
  if (path === '/repos/acme/app') return { body: { ...REPOSITORY, has_issues: false }, shown: [] };
  const one = pulls.get(Number(/^\/repos\/acme\/app\/pulls\/(\d+)$/.exec(path)?.[1]));
  if (one) return { body: { ...ofList(one), merged: one.fields.state === 'merged' }, shown: [one] };
  if (path !== '/repos/acme/app/pulls') return undefined;
  const query = url.searchParams;
  const page = Number(query.get('page') ?? 1);
  const found = listed(pulls, {
    where: ({ fields }) => query.get('state') === 'all' || fields.state === 'open',
    by: query.get('sort') === 'updated' ? 'updated' : 'created',
    isDescending: query.get('direction') === 'desc',
    ...{ page, perPage: Number(query.get('per_page') ?? 30) },
  });
  return { body: found.shown.map(ofList), shown: found.shown, headers: linkHeader(url, page, found) };
}
