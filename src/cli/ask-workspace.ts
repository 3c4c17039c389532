import type { AdminOperation, Answered, Asked } from '../admin/admin-operations.ts';
import type { Partition } from '../daemon/partition.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import type { Installation } from '../store/installation/installation.ts';
import { askOwner, hasOwner, whoRuns } from './owner.ts';
import { audibly, type PatienceFlags } from './patience.ts';
import type { Session } from './session.ts';
import { say } from './setting.ts';
import { type CommandClient, chooseWorkspace, clientFactory, onlyOf, sendThroughOwner } from './workspace-client.ts';

/** How a command asks one workspace. */
export interface Asking {
  readonly workspace: string;
  ask<Name extends AdminOperation>(name: Name, asked: Asked<Name>): Promise<Answered<Name>>;
  /** Requests to the workspace itself, through the quota of whoever answers the questions. */
  readonly client: CommandClient;
  /** Present where no daemon runs and this process holds the data folder; nothing in it has been started. */
  readonly partition?: Partition;
}

/** Asks the running daemon; without one this process takes the data folder and answers itself, starting nothing. */
export async function askingWorkspace<Result>(
  session: Session,
  { workspace: name, ...patience }: { readonly workspace?: string } & PatienceFlags,
  work: (asking: Asking) => Promise<Result>,
): Promise<Result> {
  const { runAdminOperation, longestAnswer } = await import('../admin/admin-operations.ts');
  const config = chooseWorkspace(session.config, name);
  const { data } = session.options;
  const clientOf = await clientFactory(session, config, patience);
  if (await hasOwner(data)) {
    const path = (question: AdminOperation) => `/admin/workspaces/${config.name}/questions/${question}`;
    const client = clientOf(sendThroughOwner(data, config.name));
    const ask: Asking['ask'] = (question, asked) =>
      askOwner(data, 'POST', path(question), asked, longestAnswer(question));
    return work({ workspace: config.name, ask, client });
  }
  const { sendAudited } = await import('../admin/audit.ts');
  const { compose } = await import('../daemon/compose.ts');
  const composition = await compose(onlyOf(session, config), session.parts);
  try {
    const [partition] = composition.workspaces.partitions();
    if (!partition) throw new SyncError('internal', 'the workspace did not open');
    await warnOfOtherWorkspaces(session, composition.installation);
    const ask: Asking['ask'] = (question, asked) =>
      audibly('an answer', longestAnswer(question), async () =>
        runAdminOperation(question, partition, asked, session.parts.clock, whoRuns().actor),
      ) as never;
    const client = clientOf((request, within) =>
      sendAudited(partition, request, { lane: 'interactive', patience: within }, whoRuns()),
    );
    return await work({ workspace: config.name, ask, client, partition });
  } finally {
    await composition.close();
  }
}

/** Warns of rows of workspaces that are not configured, because an empty answer would look like the truth. */
async function warnOfOtherWorkspaces(
  { config, options: { store, data } }: Session,
  { query }: Pick<Installation, 'query'>,
): Promise<void> {
  const { workspacesWithRows } = await import('../store/installation/deletions.ts');
  const configured = new Set([...config.workspaces, ...config.broken].map(({ name }) => name));
  const others = (await workspacesWithRows(query)).filter((name) => !configured.has(name));
  if (others.length === 0) return;
  const place = store === undefined ? `The data folder ${data}` : 'The database';
  say(`${place} also contains these workspaces, which this configuration does not have: ${others.join(', ')}.
To use one of them, give its configuration with --config.`);
}
