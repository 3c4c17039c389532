import { type AdminOperation, runAdminOperation } from '../../src/admin/admin-operations.ts';
import type { DeliveryPage } from '../../src/admin/deliveries/deliveries.ts';
import { SyncError } from '../../src/model/errors.ts';
import { DatabaseFault } from '../../src/platform/database/database-fault.ts';
import { allRecords } from '../support/harness/people.ts';
import type { Look } from './history.ts';
import { ProcessEnded } from './life.ts';
import type { Forge } from './plan.ts';
import type { Site } from './site.ts';

const MANY = 50;
const FEW = 5;

/** All that people may look at whatever there is. */
const LOOKS: readonly (readonly [AdminOperation, object])[] = [
  ...(['postponed', 'quota', 'quota-by-caller', 'sweep-progress'] as const).map((name) => [name, {}] as const),
  ...(['quarantine', 'plan', 'refused'] as const).map((name) => [name, { limit: MANY }] as const),
  ['held', { samples: FEW }],
  ['audit', { since: null, before: null, limit: MANY }],
  ['replay', { preview: true, state: 'applied' }],
  ...['BUG-1', 'BUG-3'].flatMap((target) => [
    ['items', { name: target }] as const,
    ['explain', { target }] as const,
    ['link-target', { target }] as const,
  ]),
];

export function createOperator({ atWork, providers }: Site) {
  async function ask(name: AdminOperation, asked: object): Promise<boolean> {
    return (await answerOf(name, asked)) !== undefined;
  }

  /** Undefined: nobody works, or it is told why there is none. */
  async function answerOf(name: AdminOperation, asked: object): Promise<unknown> {
    const process = atWork();
    if (!process) return undefined;
    try {
      return await runAdminOperation(name, process.partition, asked as never, process.clock);
    } catch (error) {
      const isTold = [ProcessEnded, SyncError, DatabaseFault].some((kind) => error instanceof kind);
      if (isTold && !(error instanceof SyncError && error.code === 'internal')) return undefined;
      throw error;
    }
  }

  return {
    async backfill(connection: Forge) {
      if (await ask('backfill', { connection, since: null })) providers.past.asked(connection);
    },
    pause: async (connection: Forge) => void (await ask('backfill-pause', { connection })),
    resume: async (connection: Forge) => void (await ask('backfill-resume', { connection })),
    sweep: async () => void (await ask('sweep', {})),
    async look() {
      // The release of a change that is not held is refused.
      if (await ask('release', { entities: ['link:nobody'] })) throw new Error('what is not held was released');
      for (const [name, asked] of LOOKS) await answerOf(name, asked);
      const changes = (await answerOf('changes', { limit: MANY })) as readonly { entity: string }[] | undefined;
      const targets = changes?.map(({ entity }) => entity) ?? [];
      if (targets.length > 0) await answerOf('changes-show', { targets });
      const page = (await answerOf('deliveries', { limit: MANY })) as DeliveryPage | undefined;
      for (const { id } of page?.deliveries.slice(0, FEW) ?? []) await answerOf('delivery', { delivery: String(id) });
    },
  };
}

export async function lookAtWorkspace({ people }: Site) {
  const { tasks } = (await people.listTasks({ query: { all: true } }, {})).body;
  const records = await allRecords(people);
  const links = [];
  for (const { taskId } of tasks) {
    const { workItems } = (await people.listWorkItems({ taskId }, {})).body;
    links.push(...workItems.map(({ workItemId, url }) => ({ taskId, workItemId, url })));
  }
  return { tasks, records, links };
}

export async function lookAtAll(site: Site): Promise<Look> {
  const { tasks, records, links } = await lookAtWorkspace(site);
  return {
    ...{ records, links, ...site.providers.held() },
    tasks: tasks.map(({ taskId, key, source, status }) => ({ taskId, key, source: source ?? null, status })),
    left: await leftToDo(site),
  };
}

/** Returns the number of changes and deliveries that are left; undefined if no process works on the workspace. */
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
