import { branchOfRecordsRead, type EntityKind, taskOfLinkRead } from './change.ts';

/** An entity, with the names that people give to its item and its task. */
interface NamedParts {
  readonly entity: string;
  readonly kind: EntityKind;
  /** `acme/app#1`; null for a read. */
  readonly item: string | null;
  /** `BUG-12`; null if the entity has no task, or none yet. */
  readonly task: string | null;
}

/** Returns the name of an entity for people: `record of acme/app#1`, `link of acme/app#1 to BUG-12`. */
export function entityLabel({ entity, kind, item, task }: NamedParts): string {
  switch (kind) {
    case 'pull_request':
      return `record of ${item ?? ''}`;
    case 'link':
      return `link of ${item ?? ''} to ${task ?? ''}`;
    case 'task':
      return `task for ${item ?? ''}`;
    case 'task_update':
      return `update of ${task ?? ''}`;
    case 'document':
      return `document for ${task ?? item ?? ''}`;
    case 'read':
      return readLabel(entity, task);
  }
}

function readLabel(entity: string, task: string | null): string {
  const ofLinks = task ?? taskOfLinkRead(entity);
  if (ofLinks !== undefined) return `links of ${ofLinks}`;
  const records = branchOfRecordsRead(entity);
  if (records) return `records of the branch ${records.headBranch}`;
  return entity === 'read:tasks' ? 'list of tasks' : entity.replace(/^read:/, '').replaceAll('_', ' ');
}
