/** What tells apart the events that carry, or speak of, a pull request or an issue; the more telling parts stand first. */
const EVENTS: readonly (readonly [event: string, ...parts: readonly string[]])[] = [
  ['pull_request_review', 'pull_request', 'review'],
  ['pull_request_review_thread', 'pull_request', 'thread'],
  ['pull_request_review_comment', 'pull_request', 'comment'],
  ['pull_request', 'pull_request', 'action'],
  ['issue_comment', 'issue', 'comment'],
  ['issues', 'issue', 'action'],
  ['ping', 'zen', 'hook_id'],
  ['push', 'ref', 'commits'],
];

/** The webhook event that a payload looks like: its name stands in a header only. */
export function eventOf(payload: unknown): string | undefined {
  if (typeof payload !== 'object' || payload === null) return undefined;
  return EVENTS.find(([, ...parts]) => parts.every((part) => Object.hasOwn(payload, part)))?.[0];
}
