import type { Item, PullRequest } from '../../../src/model/item.ts';
import type { saveItem } from '../../../src/store/items/items.ts';

type WorkItem = Extract<Item, { kind: 'work_item' }>;

/** Identity and time of the pull request of `pull`, and nothing else. */
export const PULL_IDENTITY = {
  kind: 'pull_request',
  key: 'github:github.com:5001:pull:1',
  connector: 'github',
  host: 'github.com',
  repoId: '5001',
  identifier: '1',
} as const;

/** Just enough of a pull request to be mirrored; what a test names replaces or adds. */
export function pull(fields: Partial<PullRequest> = {}): PullRequest {
  return { ...bare(1_000), title: 'A change', headBranch: 'feature', baseBranch: 'main', state: 'open', ...fields };
}

export function bare(updatedAt: number, fields: Partial<PullRequest> = {}): PullRequest {
  return { ...PULL_IDENTITY, updatedAt, ...fields };
}

export function workItem(fields: Partial<WorkItem> = {}): WorkItem {
  return {
    kind: 'work_item',
    key: 'jira:cloud-1:10001',
    connector: 'jira',
    host: 'cloud-1',
    containerId: '10',
    identifier: 'ENG-1',
    updatedAt: 1_000,
    title: 'An issue',
    state: 'open',
    ...fields,
  };
}

type StoredItem = Parameters<typeof saveItem>[1];

/** A work item as its row in the store; what a test names replaces or adds. */
export function itemRow(key: string, columns: Partial<StoredItem> = {}): StoredItem {
  return {
    ...{ key, kind: 'work_item', connector: 'jira', connection: 'jira', provider_time: 1, hash: '' },
    ...{ finished: 0, gone: 0, seen_at: 1, fields: '{"item":{}}', ...columns },
  };
}
