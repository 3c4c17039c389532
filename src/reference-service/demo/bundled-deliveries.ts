import { createHash } from 'node:crypto';
import { Webhooks } from '@octokit/webhooks';
import { CHAPTERS, type Chapter, REPOSITORIES, type Snapshot } from './story.ts';

/** A webhook request as GitHub would send it. */
export interface SignedDelivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const DAY = '2026-06-15';

/** Returns the story as signed webhook requests, in their order. */
export async function signedDeliveries(secret: string): Promise<readonly SignedDelivery[]> {
  const webhooks = new Webhooks({ secret });
  return Promise.all(
    CHAPTERS.map(async (chapter, index) => {
      const body = JSON.stringify(payload(chapter));
      return { headers: headers(chapter.event, index, await webhooks.sign(body)), body };
    }),
  );
}

function headers(event: string, index: number, signature: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': 'GitHub-Hookshot/demo',
    'x-github-delivery': deliveryId(index),
    'x-github-event': event,
    'x-hub-signature-256': signature,
  };
}

/** Returns an id in GitHub's form that is equal at every start. */
function deliveryId(index: number): string {
  const hex = createHash('sha256').update(`worksync demo delivery ${index}`).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-');
}

function payload({ at, event, action, snapshot }: Chapter): object {
  if (!snapshot) return { zen: 'Keep it logically awesome.', hook_id: 501 };
  const time = `${DAY}T${at}Z`;
  const repository = repositoryOf(snapshot);
  const common = { action, number: snapshot.number, repository, sender: user(snapshot.author) };
  const pull = pullRequest(snapshot, time, repository);
  if (event === 'pull_request') return { ...common, pull_request: pull };
  // A review carries the request without the fields that only the request's own events have.
  const { merged: _, ...partial } = pull;
  return { ...common, review: { id: 9_001, state: 'approved', user: user('hubert') }, pull_request: partial };
}

function pullRequest(snapshot: Snapshot, time: string, repository: object) {
  const { repository: name, number, state, title, body, draft, merged, head, sha } = snapshot;
  const closedAt = state === 'closed' ? time : null;
  return {
    id: 1_800_000_000 + number,
    number,
    html_url: `https://github.com/${name}/pull/${number}`,
    state,
    title,
    body,
    draft,
    user: user(snapshot.author),
    created_at: `${DAY}T${openedAt(snapshot)}Z`,
    updated_at: time,
    closed_at: closedAt,
    merged_at: merged ? closedAt : null,
    merged,
    labels: snapshot.labels.map((label, index) => ({ id: 300 + index, name: label, color: 'ededed' })),
    assignees: snapshot.assignees.map(user),
    requested_reviewers: snapshot.reviewers.map(user),
    requested_teams: [],
    head: { ref: head, sha, repo: repository },
    base: { ref: 'main', sha: '1f3e5d7c9b0a2c4e6f8d1b3a5c7e9f0b2d4a6c88', repo: repository },
  };
}

function openedAt({ repository, number }: Snapshot): string {
  const first = CHAPTERS.find(
    ({ snapshot }) => snapshot?.repository === repository && snapshot.number === number,
  ) as Chapter;
  return first.at;
}

function repositoryOf({ repository }: Snapshot) {
  return {
    id: REPOSITORIES[repository],
    full_name: repository,
    name: repository.split('/')[1],
    private: true,
    default_branch: 'main',
    html_url: `https://github.com/${repository}`,
  };
}

function user(login: string) {
  const id = Number.parseInt(createHash('sha256').update(login).digest('hex').slice(0, 6), 16);
  return { login, id, type: login.endsWith('[bot]') ? 'Bot' : 'User' };
}
