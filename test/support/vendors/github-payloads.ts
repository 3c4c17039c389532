export interface PullSetting {
  readonly number?: number;
  readonly title?: string;
  readonly body?: string | null;
  readonly head?: string;
  readonly base?: string;
  readonly state?: 'open' | 'closed';
  readonly merged?: boolean;
  readonly draft?: boolean;
  readonly labels?: readonly string[];
  /** RFC 3339. */
  readonly created?: string;
  readonly updated?: string;
  /** Opened from a fork of a public repository, by someone who is no member. */
  readonly isOfStranger?: boolean;
  /** `acme/app` if absent. */
  readonly repository?: Readonly<{ id: number; name: string }>;
}

function repositoryOf({ repository = { id: 5_001, name: 'app' }, isOfStranger = false }: PullSetting) {
  const { id, name } = repository;
  return { id, full_name: `acme/${name}`, name, private: !isOfStranger, default_branch: 'main' };
}

/** The object of GitHub's REST API and of its `pull_request` webhooks. */
export function pullObject(setting: PullSetting = {}) {
  const { created = '2026-01-05T09:00:01Z', isOfStranger } = setting;
  const repository = repositoryOf(setting);
  const headRepository = isOfStranger ? { ...repository, id: 77_001, full_name: 'stranger/app' } : repository;
  const { number = 1, title = 'A change', body = null, head = 'feature', base = 'main' } = setting;
  const { labels = [], draft = false } = setting;
  const { state = setting.merged ? 'closed' : 'open', merged = false, updated = '2026-01-05T09:00:00Z' } = setting;
  return {
    id: 90_000 + number,
    number,
    html_url: `https://github.com/${repository.full_name}/pull/${number}`,
    state,
    title,
    body,
    draft,
    merged,
    user: { login: 'mona', id: 7 },
    created_at: created,
    updated_at: updated,
    closed_at: state === 'closed' ? updated : null,
    merged_at: merged ? updated : null,
    labels: labels.map((name) => ({ name })),
    assignees: [],
    requested_reviewers: [],
    requested_teams: [],
    head: { ref: head, sha: '1111111111111111111111111111111111111111', repo: headRepository },
    base: { ref: base, sha: '2222222222222222222222222222222222222222', repo: repository },
  };
}

export function pullEvent(setting: PullSetting = {}, action = 'edited') {
  const pull_request = pullObject(setting);
  return {
    action,
    number: pull_request.number,
    pull_request,
    repository: repositoryOf(setting),
    sender: { login: 'mona' },
  };
}

/** GitHub's answer to a request that opens a pull request in acme/api, with few fields. */
export const OPENED_PULL = {
  number: 12,
  node_id: 'PR_12',
  updated_at: '2026-01-05T09:00:00Z',
  created_at: '2026-01-05T09:00:00Z',
  state: 'open',
  title: 'A change',
  body: 'Text',
  draft: false,
  merged: false,
  merged_at: null,
  html_url: 'https://github.com/acme/api/pull/12',
  user: { login: 'ada' },
  labels: [],
  assignees: [],
  requested_reviewers: [],
  requested_teams: [],
  head: { ref: 'feature', sha: 'abc' },
  base: { ref: 'main', repo: { id: 70100, full_name: 'acme/api' } },
};
