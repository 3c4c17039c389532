import { PULL_REQUESTS_READ, TASKS_READ, writeMeta } from '../../../src/store/meta.ts';
import { noteRecordsListed } from '../../../src/store/workspace/server-capabilities.ts';
import { bindServerFacts } from '../../../src/store/workspace/server-facts.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';

/** The workspace records pull requests: it has listed its records. */
export async function openRecordsRoute(query: Scope): Promise<void> {
  await noteRecordsListed(query, 0);
}

/** The workspace records pull requests, and its records were read once: records may be written. */
export async function openRecords(query: Scope): Promise<void> {
  await openRecordsRoute(query);
  await writeMeta(query, PULL_REQUESTS_READ, '0');
}

/** Stores that the workspace at this address was read completely: it records pull requests, and both lists are known. */
export async function knowLists(query: Scope, address: string): Promise<void> {
  await bindServerFacts(query, address);
  await openRecords(query);
  await writeMeta(query, TASKS_READ, '0');
}
