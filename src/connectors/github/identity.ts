import { type ItemReference, pullRequestKey, workItemKey } from '../../model/item.ts';

/** A repository as payloads and locators name it. */
interface RepositoryName {
  readonly id: string | number;
  readonly full_name: string;
}

export function pullIdentity(host: string, repository: RepositoryName, number: string | number) {
  return {
    kind: 'pull_request' as const,
    key: pullRequestKey('github', host, String(repository.id), String(number)),
    connector: 'github',
    host,
    repoId: String(repository.id),
    repoName: repository.full_name,
    identifier: String(number),
  };
}

/** By the issue's own id, which is unique on its host. A transfer gives it a new one. */
export function issueIdentity(host: string, repository: RepositoryName, issue: { id: number; number: number }) {
  return {
    kind: 'work_item' as const,
    key: workItemKey('github', host, String(issue.id)),
    connector: 'github',
    host,
    containerId: String(repository.id),
    containerName: repository.full_name,
    identifier: `#${issue.number}`,
  };
}

export function pullReference(host: string, repository: RepositoryName, number: string | number): ItemReference {
  const { kind, key, repoId } = pullIdentity(host, repository, number);
  return { kind, key, locator: { repoId, repository: repository.full_name, number: String(number) } };
}

interface IssueName {
  readonly id: string | number;
  readonly number: string | number;
}

export function issueReference(host: string, repository: RepositoryName, issue: IssueName): ItemReference {
  const id = String(issue.id);
  const locator = { repoId: String(repository.id), repository: repository.full_name, number: String(issue.number), id };
  return { kind: 'work_item', key: workItemKey('github', host, id), locator };
}
