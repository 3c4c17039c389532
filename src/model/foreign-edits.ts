/**
 * A change by others that no webhook reported, and the reaction of worksync, at the latest with the next sweep.
 * The table in the reference is generated from this list, and property tests in `test/laws` prove each row.
 */
export interface ForeignEdit {
  readonly side: 'workspace' | 'provider';
  readonly thing: string;
  readonly edit: string;
  readonly result: string;
  /** Requests besides the lists. */
  readonly writes: 0 | 1;
  /** Found by the lists of the workspace sweep, by its single reads of what no list contains (`turn`), or by a connection's sweep. */
  readonly foundBy: 'lists' | 'turn' | 'connection';
  /** The name under which the sweep reports it; absent: it does not. */
  readonly finding?: Finding;
}

/** Differences that a sweep of the workspace may find. */
export const FINDINGS = [
  'record-changed',
  'record-missing',
  'task-changed',
  'task-missing',
  'link-removed',
  'link-added',
  'document-moved',
] as const;
export type Finding = (typeof FINDINGS)[number];

const MATCHES = 'matches its provider again';

export const FOREIGN_EDITS = {
  recordChanged: {
    side: 'workspace',
    thing: 'record of a pull request',
    edit: 'a field is changed',
    result: MATCHES,
    writes: 1,
    foundBy: 'lists',
    finding: 'record-changed',
  },
  recordRemoved: {
    side: 'workspace',
    thing: 'record of a pull request',
    edit: 'it is removed',
    result: 'is written again',
    writes: 1,
    foundBy: 'lists',
    finding: 'record-missing',
  },
  recordChangedBack: {
    side: 'workspace',
    thing: 'record of a pull request',
    edit: 'a field is changed, and changed back',
    result: 'stays',
    writes: 0,
    foundBy: 'lists',
  },
  recordAdded: {
    side: 'workspace',
    thing: 'record of a pull request that no connection follows',
    edit: 'it is added, changed or removed',
    result: 'stays as people left it',
    writes: 0,
    foundBy: 'lists',
  },
  pullLinkRemoved: {
    side: 'workspace',
    thing: 'link to a pull request',
    edit: 'it is removed',
    result: 'stays removed until the text names the task again',
    writes: 0,
    foundBy: 'lists',
    finding: 'link-removed',
  },
  pullLinkAdded: {
    side: 'workspace',
    thing: 'link to a pull request that names no task',
    edit: 'it is added by hand',
    result: 'stays',
    writes: 0,
    foundBy: 'lists',
  },
  itemLinkRemoved: {
    side: 'workspace',
    thing: 'link to a work item',
    edit: 'it is removed',
    result: 'stays removed until the text names the task again',
    writes: 0,
    foundBy: 'turn',
    finding: 'link-removed',
  },
  itemLinkAdded: {
    side: 'workspace',
    thing: 'link to a work item, on a task that has one already',
    edit: 'it is added by hand',
    result: 'stays, and the task becomes the task of the work item',
    writes: 0,
    foundBy: 'turn',
    finding: 'link-added',
  },
  taskChanged: {
    side: 'workspace',
    thing: 'task',
    edit: 'title or status is changed',
    result: 'stays as people left it',
    writes: 0,
    foundBy: 'lists',
    finding: 'task-changed',
  },
  taskRemoved: {
    side: 'workspace',
    thing: 'task',
    edit: 'it is removed',
    result: 'stays removed',
    writes: 0,
    foundBy: 'lists',
    finding: 'task-missing',
  },
  documentMoved: {
    side: 'workspace',
    thing: 'document that was attached to a task',
    edit: 'it is attached to another, or to none',
    result: 'stays as people left it',
    writes: 0,
    foundBy: 'turn',
    finding: 'document-moved',
  },
  itemRemoved: {
    side: 'provider',
    thing: 'pull request or work item',
    edit: 'it is removed, or not shown to the credential any more',
    result: 'is gone: its record and its links stay as they are, and nothing is written for it',
    writes: 0,
    foundBy: 'connection',
  },
  itemRestored: {
    side: 'provider',
    thing: 'pull request or work item that was gone',
    edit: 'it is restored, or shown again, and was changed meanwhile',
    result: `its record ${MATCHES}`,
    writes: 1,
    foundBy: 'connection',
  },
} as const satisfies Readonly<Record<string, ForeignEdit>>;
