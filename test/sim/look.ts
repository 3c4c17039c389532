import { allRecords } from '../support/harness/people.ts';
import type { Look } from './history.ts';
import type { Site } from './site.ts';

/** Tasks, records and links, as people see them. */
export async function lookAtWorkspace({ people }: Site) {
  const { tasks } = (await people.listTasks({ query: { all: true } }, {})).body;
  const records = await allRecords(people);
  const links = [];
  for (const { taskId } of tasks) {
    const { workItems } = (await people.listWorkItems({ taskId }, {})).body;
    links.push(
      ...workItems.map(({ workItemId, url, externalId }) => ({ taskId, workItemId, url, isByHand: !externalId })),
    );
  }
  return { tasks, records, links };
}

/** The same beside what the providers hold. */
export async function lookAtAll(site: Site): Promise<Look> {
  const { tasks, records, links } = await lookAtWorkspace(site);
  return {
    ...{ records, links, ...site.providers.held() },
    tasks: tasks.map(({ taskId, key, source, status }) => ({ taskId, key, source: source ?? null, status })),
    left: await leftToDo(site),
  };
}

/** What waits, is on its way, or is still to be read; undefined where no process works on the workspace. */
export async function leftToDo(site: Site): Promise<number | undefined> {
  const partition = site.partition();
  if (!partition) return undefined;
  const { query } = partition.store;
  const waiting = await query.selectFrom('outbox').select('entity').execute();
  const pending = await query.selectFrom('inbox').select('id').where('state', '=', 'pending').execute();
  const notices = await query.selectFrom('notices').select('kind').where('state', '=', 'waiting').execute();
  const unread = await query.selectFrom('backfills').select('unit').where('finished_at', 'is', null).execute();
  return unread.length + waiting.length + pending.length + notices.length + partition.outbox.inFlight;
}
