import { hash } from 'node:crypto';
import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import { plainComment } from '../../model/notice.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { ConnectionDeps, Finding, HookState, Hooks } from '../connector.ts';
import { failedFinding } from '../kit/findings.ts';
import { hooksOf } from '../kit/hooks.ts';
import { isNamed, readable, UUID } from '../kit/payload.ts';
import { onOneLine } from '../kit/refusal.ts';
import { memoize } from '../kit/rest.ts';
import type { TrackerSource } from '../kit/tracker.ts';
import { type Selection, storedPage } from '../kit/walk.ts';
import { type Api, CURSOR, createApi, cursorAfter, pageOf, rateOf, readAll } from './api.ts';
import type { Options } from './options.ts';
import * as schema from './schema.ts';

/** With their labels, about 3,000 points of the 10,000 that one request may cost. */
const PAGE = 50;
const IDS_AT_ONCE = 250;
/** The states of a finished issue, which closing does not change. */
const DONE = ['completed', 'canceled', 'duplicate'];

const issues = z.object({ issues: pageOf(z.unknown()) });
const teams = z.object({ teams: pageOf(schema.wholeTeam) });

/**
 * The API of one organisation. Its lists contain archived issues, and those in the trash. A cursor names the issue before it, so
 * concurrent changes hide nothing.
 */
export function connect(options: Options, deps: ConnectionDeps): TrackerSource<schema.Team> {
  const api = createApi(options, deps);
  return {
    containers: (signal) =>
      readAll(async (after) => (await api.ask(TEAMS, { after }, teams, signal, { use: 'poll' })).data.teams),
    async container(unit, signal) {
      const { data } = await api.ask(TEAMS, { filter: teamIs(unit) }, teams, signal, { use: 'background' });
      const [first] = data.teams.nodes;
      if (first) return first;
      throw new SyncError('not_found', `this credential can see no team ${unit}`);
    },
    async list({ unit, selection, page, use }, signal) {
      const after = storedPage(page, CURSOR);
      const filter = filterOf(unit, selection);
      const asked =
        selection.items === 'ids'
          ? api.ask(ISSUE_IDS, { filter, first: IDS_AT_ONCE, after }, issues, signal, { use })
          : api.ask(ISSUES, { filter, orderBy: ORDERS[selection.items], first: PAGE, after }, issues, signal, {
              use,
              keep: true,
            });
      const { data, answer } = await asked;
      return { found: data.issues.nodes, next: cursorAfter(data.issues.pageInfo, after), answer };
    },
    /**
     * One answer also shows whether the team can be seen. An unknown team is replaced by the id of the issue, which no team has.
     */
    async item({ id: issueId, container }, signal) {
      const variables = { issueId, teamId: container ?? issueId };
      const { data } = await api.ask(ONE_ISSUE, variables, schema.one, signal, { keep: true });
      const [found] = data.issues.nodes;
      return found === undefined ? { isGone: data.teams.nodes.length > 0 } : { found };
    },
    async about(signal) {
      try {
        const { data, answer } = await api.ask(WHO, {}, schema.who, signal);
        const message = `of ${onOneLine(data.viewer.name, 100)}`;
        const credential: Finding = { level: 'ok', subject: 'credential', message };
        return { first: [credential], besides: [organization(data.organization, options), limit(answer)] };
      } catch (thrown) {
        return { first: [failedFinding('credential', thrown)] };
      }
    },
    describe: async (unit, { key, name }) => ({
      level: 'ok',
      subject: unit,
      message: `${key}, ${onOneLine(name, 100)}, can be read`,
    }),
    /**
     * Linear lets the writer choose a comment's id. It is derived from the issue and the marker, so the comment is found again
     * without a mark in its text, and cannot be posted twice, even if an answer was lost.
     */
    async comment({ id: issueId }, { marker, text, isCorrection }, signal) {
      const id = idOf(`${issueId} ${marker}`);
      const [found] = (await api.ask(COMMENT, { id }, schema.standing, signal)).data.comments.nodes;
      if (!found && isCorrection) return undefined;
      const author = found?.body === text ? found.user : await write();
      return author ? { id, author: author.id, text: plainComment(text) } : undefined;

      async function write() {
        const changed = found
          ? await api.change(UPDATE_COMMENT, { id, body: text }, signal)
          : await api.change(CREATE_COMMENT, { input: { id, issueId, body: text } }, signal);
        return Object.values(changed).map((each) => readable(schema.commented, each)?.comment.user)[0];
      }
    },
    /** Moves the issue to a completed state of its team; a finished one stays unchanged. */
    async close({ id: issueId }, key, signal) {
      const [issue] = (await api.ask(CLOSING, { issueId }, schema.closing, signal)).data.issues.nodes;
      if (!issue) throw new SyncError('not_found', `${key} cannot be closed: it cannot be seen`);
      if (DONE.includes(issue.state.type)) return;
      const states = issue.team.states.nodes.toSorted((left, right) => left.position - right.position);
      const chosen = states.find(({ name }) => isNamed(name, options.completedStatus));
      if (!chosen)
        throw new SyncError('conflict', `${key} cannot be closed: its team has no such completed status`, {
          hint: 'Set completedStatus to the name of a status of the type Completed that each team has, or leave it out.',
        });
      await api.change(SET_STATE, { issueId, stateId: chosen.id }, signal);
    },
    hooks: (followed) => hooksOfTeams(api, followed),
  };
}

const ORDERS = { open: 'createdAt', changed: 'updatedAt' } as const;

function filterOf(unit: string, selection: Selection): object {
  if (selection.items === 'ids') return { team: teamIs(selection.containerId) };
  const team = teamIs(unit);
  if (selection.items === 'open')
    return { team, or: [{ state: { type: { nin: DONE } } }, { updatedAt: { gte: instant(selection.began) } }] };
  return selection.since === undefined ? { team } : { team, updatedAt: { gte: instant(selection.since) } };
}

function instant(time: number): string {
  return new Date(time).toISOString();
}

function teamIs(unit: string): object {
  return UUID.test(unit) ? { id: { eq: unit } } : { key: { eq: unit } };
}

/** Returns a UUID of version 4, as Linear requires it, whose random bits are a hash. */
function idOf(text: string): string {
  const hex = hash('sha256', text, 'hex');
  const variant = '89ab'[Number.parseInt(hex.charAt(16), 16) % 4];
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function organization({ id, urlKey }: z.infer<typeof schema.who>['organization'], options: Options): Finding {
  const subject = 'organisation';
  const name = onOneLine(urlKey, 60);
  if (id === options.organizationId) return { level: 'ok', subject, message: `${name} has the configured id` };
  return {
    level: 'error',
    subject,
    message: `the credential belongs to ${name}, whose id is ${onOneLine(id, 60)}`,
    hint: 'Write that id in the configuration, or use a credential of the organisation that you mean.',
  };
}

function limit({ headers }: HttpAnswer): Finding {
  const subject = 'rate limit';
  const rate = rateOf(headers);
  if (!rate) return { level: 'ok', subject, message: 'none reported' };
  const message = `${rate.remaining} of ${rate.limit} left`;
  if (rate.remaining >= rate.limit / 10) return { level: 'ok', subject, message };
  const hint = 'Poll less often, or give worksync a credential of its own.';
  return { level: 'warning', subject, message, hint };
}

const TYPES = ['Comment', 'Issue'];

const hook = z.object({
  id: schema.id,
  url: z.string().nullish(),
  enabled: z.boolean(),
  resourceTypes: z.array(z.string()),
  allPublicTeams: z.boolean(),
  team: z.object({ id: z.string() }).nullish(),
});

type Team = schema.Team;

type Registered = z.infer<typeof hook>;

const data = z.object({ webhooks: pageOf(hook) });

/** A webhook for each team; one for all public teams that sends to this address covers each of those, and no other. */
function hooksOfTeams(api: Api, followed: (signal: AbortSignal) => Promise<readonly Team[]>): Hooks {
  const told = new WeakSet<Registered>();
  return hooksOf<Team, Registered>({
    placesOf: followed,
    subjectOf: ({ key }) => key,
    finder(url, signal) {
      const all = memoize(() =>
        readAll(
          async (after) => (await api.ask(WEBHOOKS, { after }, data, signal, { use: 'background' })).data.webhooks,
        ),
      );
      return async (team) => {
        const standing = (await all()).filter((each) => each.url === url);
        const own = standing.find((each) => each.team?.id === team.id);
        return own ?? (isPublic(team) ? standing.find(({ allPublicTeams }) => allPublicTeams) : undefined);
      };
    },
    hidden: ['forbidden', 'unauthorized'],
    unknown: {
      state: 'unknown',
      message: 'only an administrator of Linear may read webhooks',
      hint: 'Look at Settings, API.',
    },
    stateOf,
    isRight: ({ enabled, resourceTypes }) => enabled && TYPES.every((type) => resourceTypes.includes(type)),
    async save(team, found, { url, secret }, signal) {
      const input = { enabled: true, resourceTypes: TYPES, secret };
      const created = { ...input, label: 'worksync', url, teamId: team.id };
      if (!found) await api.change(CREATE_WEBHOOK, { input: created }, signal);
      // Sends the secret each time: not every credential can see whether it is the same.
      else if (!told.has(found)) await api.change(UPDATE_WEBHOOK, { id: found.id, input }, signal);
      if (found) told.add(found);
      return ACTIVE;
    },
  });
}

const ACTIVE = { state: 'active', message: 'the webhook is registered' } as const;

function isPublic({ visibility = 'public' }: Team): boolean {
  return visibility === 'public';
}

function stateOf(found: Registered | undefined, team: Team): Omit<HookState, 'subject'> {
  if (!found)
    return {
      state: 'absent',
      message: isPublic(team)
        ? 'no webhook sends to this address'
        : 'no webhook of its own sends to this address, and webhooks for all public teams leave out a private team',
      hint: 'Run "worksync hooks install" with a key of an administrator, or add it at Settings, API.',
    };
  if (found.enabled) return ACTIVE;
  return {
    state: 'disabled',
    message: 'the webhook is switched off: Linear does that when its deliveries keep failing',
    hint: 'Run "worksync hooks install", or switch it on at Settings, API.',
  };
}

/*
 * The documents that worksync sends to Linear's GraphQL API. A test validates each document against the schema that Linear
 * publishes. Costs count by the number of things that a list may hold, so every list names its limit.
 */

/** More labels than this on one issue are not read, and the item then has none at all rather than some. */
const ISSUE = `
  fragment IssueFields on Issue {
    id
    identifier
    previousIdentifiers
    title
    description
    url
    priority
    createdAt
    updatedAt
    completedAt
    canceledAt
    trashed
    state { name type }
    assignee { id email }
    creator { id email app }
    labels(first: 50) { nodes { name } pageInfo { hasNextPage } }
    team { id key }
  }`;

/** Archived ones are included: they exist, and so do those in the trash, which say so. */
export const ISSUES = `${ISSUE}
  query Issues($filter: IssueFilter!, $orderBy: PaginationOrderBy!, $first: Int!, $after: String) {
    issues(filter: $filter, orderBy: $orderBy, first: $first, after: $after, includeArchived: true) {
      nodes { ...IssueFields }
      pageInfo { hasNextPage endCursor }
    }
  }`;

export const ISSUE_IDS = `
  query IssueIds($filter: IssueFilter!, $first: Int!, $after: String) {
    issues(filter: $filter, orderBy: createdAt, first: $first, after: $after, includeArchived: true) {
      nodes { id trashed }
      pageInfo { hasNextPage endCursor }
    }
  }`;

/** One issue, and whether its team can be seen: only then does its absence mean that it is gone. */
export const ONE_ISSUE = `${ISSUE}
  query OneIssue($issueId: ID!, $teamId: ID!) {
    issues(filter: { id: { eq: $issueId } }, first: 1, includeArchived: true) { nodes { ...IssueFields } }
    teams(filter: { id: { eq: $teamId } }, first: 1, includeArchived: true) { nodes { id } }
  }`;

export const TEAMS = `
  query Teams($filter: TeamFilter, $after: String) {
    teams(filter: $filter, first: 100, after: $after) {
      nodes { id key name visibility }
      pageInfo { hasNextPage endCursor }
    }
  }`;

export const WHO = `
  query Who {
    viewer { name }
    organization { id urlKey }
  }`;

const COMMENT = `
  query PostedComment($id: ID!) {
    comments(filter: { id: { eq: $id } }, first: 1) { nodes { id body user { id } } }
  }`;

const CREATE_COMMENT = `
  mutation CreateComment($input: CommentCreateInput!) {
    commentCreate(input: $input) { success comment { id user { id } } }
  }`;

export const UPDATE_COMMENT = `
  mutation UpdateComment($id: String!, $body: String!) {
    commentUpdate(id: $id, input: { body: $body }) { success comment { id user { id } } }
  }`;

export const CLOSING = `
  query Closing($issueId: ID!) {
    issues(filter: { id: { eq: $issueId } }, first: 1, includeArchived: true) {
      nodes {
        state { type }
        team { states(filter: { type: { eq: "completed" } }, first: 50) { nodes { id name position } } }
      }
    }
  }`;

export const SET_STATE = `
  mutation SetState($issueId: String!, $stateId: String!) {
    issueUpdate(id: $issueId, input: { stateId: $stateId }) { success }
  }`;

export const WEBHOOKS = `
  query Webhooks($after: String) {
    webhooks(first: 100, after: $after) {
      nodes { id url enabled resourceTypes allPublicTeams team { id } }
      pageInfo { hasNextPage endCursor }
    }
  }`;

export const CREATE_WEBHOOK = `
  mutation CreateWebhook($input: WebhookCreateInput!) {
    webhookCreate(input: $input) { success }
  }`;

export const UPDATE_WEBHOOK = `
  mutation UpdateWebhook($id: String!, $input: WebhookUpdateInput!) {
    webhookUpdate(id: $id, input: $input) { success }
  }`;
