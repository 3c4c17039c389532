import type { Quota } from '../../../../src/reference-service/http/quota-log.ts';
import { startWorkspaceService } from '../../fakes/workspace-service.ts';
import { type CountingDoor, openDoor } from './counting-door.ts';

/** A workspace that the replicas write to. */
export interface CountedWorkspace {
  readonly name: string;
  readonly key: string;
  readonly door: CountingDoor;
  readonly quota: Quota;
  /** Titles of the records and tasks that people find there, by what a title begins with; one for each of them. */
  titles(): Promise<ReadonlyMap<string, readonly string[]>>;
}

export interface CountedService {
  readonly workspaces: readonly CountedWorkspace[];
  close(): Promise<void>;
}

/** How long a request is on its way at least, milliseconds: so that some are, whenever something happens. */
const DELAY = 60;

/** A workspace service with these workspaces, behind a door that counts. */
export async function startCountedService(names: readonly string[], quota: Quota): Promise<CountedService> {
  const { service, url, client, close } = await startWorkspaceService({ quota });
  const door = await openDoor(url, DELAY);
  const workspaces: CountedWorkspace[] = [];
  for (const name of names) {
    const workspaceId = await service.addWorkspace();
    const userId = await service.addUser({ workspaceId, name: 'Owner', role: 'owner' });
    const { secret: key } = await service.mintKey({ workspaceId, userId, description: name });
    const { secret: token } = await service.mintToken({ workspaceId, userId, role: 'owner', ttl: null });
    const people = client(token);
    workspaces.push({
      ...{ name, key, door, quota },
      async titles() {
        const titles = [
          ...(await all(async (query) => {
            const { pullRequests, nextCursor } = (await people.listPullRequests({ query }, {})).body;
            return { titles: pullRequests.map(({ title }) => title), nextCursor };
          })),
          ...(await all(async (query) => {
            const { tasks, nextCursor } = (await people.listTasks({ query }, {})).body;
            return { titles: tasks.map(({ title }) => title), nextCursor };
          })),
        ];
        const found = new Map<string, string[]>();
        for (const title of titles) found.set(subjectOf(title), [...(found.get(subjectOf(title)) ?? []), title]);
        return found;
      },
    });
  }
  return {
    workspaces,
    async close() {
      await door.close();
      await close();
    },
  };
}

/** Constant part of a title such as `Change 3, version 17`. */
export function subjectOf(title: string): string {
  return title.split(',')[0] as string;
}

interface Page {
  readonly titles: readonly string[];
  readonly nextCursor?: string | null;
}

async function all(read: (query: { limit: number; cursor?: string }) => Promise<Page>): Promise<readonly string[]> {
  const titles: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await read({ limit: 100, ...(cursor !== undefined && { cursor }) });
    titles.push(...page.titles);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return titles;
}

/** Whether its quota is not what the test is about. */
export function isAmple({ quota }: CountedWorkspace): boolean {
  return quota.requests > 200;
}
