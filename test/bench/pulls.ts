import { REPOSITORY } from './deliveries.ts';

/** About what people write, so that a slimmed pull request has some 2 kB. */
const DESCRIPTION =
  'What this changes: the pool no longer grows without bound when a tenant is deleted while its jobs run.\n'.repeat(12);

/** One of many pull requests, as GitHub gives it with what nobody reads left out. */
export function pullObject(number: number) {
  const updated_at = new Date(Date.UTC(2026, 0, 1) + number * 60_000).toISOString();
  const merged = number % 3 > 0;
  return {
    number,
    updated_at,
    state: merged ? 'closed' : 'open',
    title: `Close the pool of tenant ${number}`,
    body: DESCRIPTION,
    draft: number % 7 === 0,
    merged_at: merged ? updated_at : null,
    created_at: '2026-01-01T00:00:00Z',
    html_url: `https://github.com/${REPOSITORY}/pull/${number}`,
    user: { login: 'mona' },
    labels: [{ name: 'bug' }, { name: `area-${number % 20}` }],
    assignees: [{ login: 'hubot' }],
    requested_reviewers: [{ login: 'octocat' }],
    requested_teams: [],
    head: { ref: `tenant-${number}`, sha: number.toString(16).padStart(40, '0') },
    base: { ref: 'main', repo: { id: 186_853_002, full_name: REPOSITORY } },
  };
}

/** Its webhook. */
export function pullEvent(number: number): Buffer {
  return Buffer.from(JSON.stringify({ action: 'edited', number, pull_request: pullObject(number) }));
}
