import type { WorkspaceClient } from '../../../src/workspace-api/typed-client.ts';

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

export function handsOf(people: WorkspaceClient<object>) {
  const tasks = async () => (await people.listTasks({ query: { all: true } }, {})).body.tasks.toReversed();
  return {
    people,
    /** Creates a bug. The first one is BUG-1. */
    bug: async (title = 'It breaks') => (await people.createBug({ body: { title } }, {})).body,
    task: async (taskId: string) => (await people.getTask({ taskId }, {})).body,
    tasks,
    statuses: async () => Object.fromEntries((await tasks()).map(({ key, status }) => [key, status])),
    links: async (taskId: string) => (await people.listWorkItems({ taskId }, {})).body.workItems,
    records: () => allRecords(people),
  };
}
