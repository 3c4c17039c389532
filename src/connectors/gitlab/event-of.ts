const EVENTS: ReadonlyMap<unknown, string> = new Map([
  ['merge_request', 'Merge Request Hook'],
  ['note', 'Note Hook'],
  ['issue', 'Issue Hook'],
  ['work_item', 'Issue Hook'],
  ['push', 'Push Hook'],
  ['tag_push', 'Tag Push Hook'],
  ['pipeline', 'Pipeline Hook'],
  ['build', 'Job Hook'],
]);

/** The webhook event that a payload belongs to, as the header names it. */
export function eventOf(payload: unknown): string | undefined {
  return EVENTS.get((payload as { object_kind?: unknown } | null | undefined)?.object_kind);
}
