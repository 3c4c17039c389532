/**
 * A morning at Acme as GitHub would tell it: three pull requests and a fourth from a bot, in two repositories. The
 * deliveries are the same at every start, ids included, so that a second start on the same data sends nothing.
 */

/** Tasks that people made in the workspace before. The story's branches and titles name all but the last. */
export const TASKS = [
  { kind: 'bug', title: 'Checkout times out when the cart holds more than 50 lines' },
  { kind: 'bug', title: 'Refunds are rounded to the wrong cent' },
  { kind: 'idea', title: 'Show the delivery date before payment' },
  { kind: 'bug', title: 'Search finds nothing for names with accents' },
] as const;

/** A pull request as the deliveries show it, at one moment. */
export interface Snapshot {
  readonly repository: keyof typeof REPOSITORIES;
  readonly number: number;
  readonly author: string;
  readonly title: string;
  readonly body: string | null;
  readonly head: string;
  readonly sha: string;
  readonly state: 'open' | 'closed';
  readonly draft: boolean;
  readonly merged: boolean;
  readonly labels: readonly string[];
  readonly assignees: readonly string[];
  readonly reviewers: readonly string[];
}

export interface Chapter {
  /** Time of the day. */
  readonly at: string;
  readonly event: 'pull_request' | 'pull_request_review' | 'ping';
  readonly action: string;
  readonly snapshot?: Snapshot;
}

export const REPOSITORIES = {
  'acme/storefront': 712_004_411,
  'acme/payments': 712_004_902,
} as const;

const timeouts: Snapshot = {
  repository: 'acme/storefront',
  number: 418,
  author: 'mona',
  title: 'Load cart lines in pages',
  body: 'Carts above 50 lines ran into the gateway limit. Lines are now read 25 at a time.',
  head: 'bug-1-page-cart-lines',
  sha: '5f1c2f6b3a4d8e90712c4b6d8f0a1c3e5d7b9f11',
  state: 'open',
  draft: true,
  merged: false,
  labels: [],
  assignees: [],
  reviewers: [],
};

const rounding: Snapshot = {
  ...timeouts,
  repository: 'acme/payments',
  number: 97,
  author: 'hubert',
  title: 'Round refunds half to even',
  body: null,
  head: 'refund-rounding',
  sha: '0b9d7c5a3e1f2a4c6e8d0b1c3f5a7e9d2c4b6a88',
  draft: false,
};

const deliveryDate: Snapshot = {
  ...timeouts,
  number: 421,
  author: 'lisbeth',
  title: 'Show the delivery date in the cart',
  body: 'Uses the carrier estimate, falls back to the slowest one.',
  head: 'lisbeth/idea-1-delivery-date',
  sha: 'c3a1e5d7f9b2048c6e1a3d5f7b9c0e2a4d6f8b55',
  draft: false,
};

const bot: Snapshot = {
  ...timeouts,
  number: 422,
  author: 'acme-updates[bot]',
  title: 'Use UTF-8 and SHA-256 everywhere (undici 8.12.4)',
  body: 'Neither of the two in the title is a task, and looking them up costs no request.',
  head: 'updates/undici-8.12.4',
  sha: 'e8d6c4b2a0f1e3d5c7b9a8f6e4d2c0b1a3f5e7aa',
  draft: false,
  labels: ['dependencies'],
};

const reviewed = { ...timeouts, draft: false, labels: ['cart'], reviewers: ['hubert'] };
const named = { ...rounding, title: 'Round refunds half to even (BUG-2)', labels: ['money'] };

export const CHAPTERS: readonly Chapter[] = [
  { at: '08:59:10', event: 'ping', action: 'ping' },
  { at: '09:00:02', event: 'pull_request', action: 'opened', snapshot: timeouts },
  { at: '09:04:31', event: 'pull_request', action: 'opened', snapshot: rounding },
  { at: '09:05:12', event: 'pull_request', action: 'labeled', snapshot: { ...timeouts, labels: ['cart'] } },
  {
    at: '09:11:45',
    event: 'pull_request',
    action: 'ready_for_review',
    snapshot: { ...timeouts, draft: false, labels: ['cart'] },
  },
  { at: '09:11:58', event: 'pull_request', action: 'review_requested', snapshot: reviewed },
  { at: '09:20:07', event: 'pull_request', action: 'edited', snapshot: named },
  { at: '09:31:40', event: 'pull_request', action: 'opened', snapshot: deliveryDate },
  { at: '09:32:03', event: 'pull_request', action: 'assigned', snapshot: { ...deliveryDate, assignees: ['lisbeth'] } },
  { at: '09:40:00', event: 'pull_request', action: 'opened', snapshot: bot },
  {
    at: '09:52:26',
    event: 'pull_request',
    action: 'synchronize',
    snapshot: { ...reviewed, sha: '9a7c5e3b1d0f2c4e6a8b0d1f3e5c7a9b2d4f6e33' },
  },
  { at: '10:15:54', event: 'pull_request_review', action: 'submitted', snapshot: { ...reviewed, reviewers: [] } },
  {
    at: '10:21:09',
    event: 'pull_request',
    action: 'closed',
    snapshot: { ...reviewed, reviewers: [], state: 'closed', merged: true },
  },
  { at: '10:30:00', event: 'pull_request', action: 'closed', snapshot: { ...bot, state: 'closed', merged: true } },
];
