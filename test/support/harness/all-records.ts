import type { WorkspaceClient } from '../../../src/workspace-api/typed-client.ts';

/** All records of pull requests in a workspace, page by page, by their numbers. */
export async function allRecords(people: Pick<WorkspaceClient<object>, 'listPullRequests'>) {
  const page = async (cursor: string | undefined) =>
    (await people.listPullRequests({ query: { limit: 100, ...(cursor === undefined ? {} : { cursor }) } }, {})).body;
  const found: Awaited<ReturnType<typeof page>>['pullRequests'][number][] = [];
  let cursor: string | undefined;
  do {
    const { pullRequests, nextCursor } = await page(cursor);
    found.push(...pullRequests);
    cursor = nextCursor ?? undefined;
  } while (cursor !== undefined);
  return found.toSorted((left, right) => Number(left.identifier) - Number(right.identifier));
}
