/**
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

export const COMMENT = `
  query PostedComment($id: ID!) {
    comments(filter: { id: { eq: $id } }, first: 1) { nodes { id body user { id } } }
  }`;

export const CREATE_COMMENT = `
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
