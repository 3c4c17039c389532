import type { RouteName } from '../../../../src/workspace-api/contract.ts';
import { type Behaviour, type Fields, type Reply, refusal, type Site } from './exchange.ts';

const ROUTES: ReadonlySet<RouteName> = new Set([
  'listPullRequests',
  'createPullRequest',
  'updatePullRequest',
  'listPullRequestRecords',
  'recordPullRequest',
]);
const RECORDS: ReadonlySet<RouteName> = new Set(['listPullRequestRecords', 'recordPullRequest']);

/** `POST …/pull-requests` opens, whatever `identifier` says, and there is no route for records. */
export function openingPullRequests({ seen }: Site): Behaviour {
  const opened: Fields[] = [];
  return {
    async answer(call, next) {
      if (RECORDS.has(call.route)) return refusal(404, 'not_found', 'address not found');
      if (call.route === 'listPullRequests')
        return { status: 200, headers: {}, body: { pullRequests: opened, nextCursor: null } };
      if (call.route === 'updatePullRequest') return refusal(404, 'not_found', 'pull request not found');
      if (call.route !== 'createPullRequest') return next(call);
      const { title } = call.body;
      const pull = { ...call.body, identifier: String(9_000 + opened.length), state: 'open', taskIds: [] };
      opened.push(pull);
      seen.opened.push(String(title));
      return { status: 201, headers: {}, body: pull };
    },
  };
}

export function refusingPullRequests(reply: Reply) {
  return (): Behaviour => ({ answer: async (call, next) => (ROUTES.has(call.route) ? reply : next(call)) });
}

export const wantingProvider = (): Behaviour => ({
  async answer(call, next) {
    const isRead = call.route === 'listPullRequests' || call.route === 'listPullRequestRecords';
    if (!isRead || call.query.has('provider')) return next(call);
    return refusal(400, 'validation_failed', 'provider is required');
  },
});
