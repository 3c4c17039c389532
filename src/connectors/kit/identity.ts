import { pullRequestKey, workItemKey } from '../../model/item.ts';
import { present } from './fields.ts';

/** Of a work item: by the vendor's own id, which survives moves. */
export function identityOf(
  connector: string,
  host: string,
  { id, container, identifier }: { readonly id: string; readonly container: string; readonly identifier: string },
) {
  const key = workItemKey(connector, host, id);
  return { kind: 'work_item' as const, key, connector, host, containerId: container, identifier };
}

/** Of a pull request: its number is unique within its repository only, so the repository's id is part of the key. */
export function pullIdentityOf(
  connector: string,
  host: string,
  { id, name }: { readonly id: number | string; readonly name?: string },
  number: number,
) {
  const [repoId, identifier] = [String(id), String(number)];
  const key = pullRequestKey(connector, host, repoId, identifier);
  return { kind: 'pull_request' as const, key, connector, host, repoId, ...present({ repoName: name }), identifier };
}
