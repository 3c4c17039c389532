import type { Command } from 'commander';
import type { AdminOperation, Answered, Asked } from '../admin/admin-operations.ts';
import type { Partition } from '../daemon/partition.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import type { Installation } from '../store/installation/installation.ts';
import { askOwner, hasOwner, whoRuns } from './owner.ts';
import { audibly, type PatienceFlags } from './patience.ts';
import type { Session } from './session.ts';
import { type Exit, type Setting, say, sessionOf } from './setting.ts';
import { type CommandClient, chooseWorkspace, clientFactory, onlyOf, sendThroughOwner } from './workspace-client.ts';
import {
  type Described,
  type Output,
  show,
  type WorkspaceCommandOptions,
  type WorkspaceFlags,
  workspaceCommand,
} from './workspace-command.ts';

/** How a command asks one workspace. */
export interface Asking {
  readonly session: Session;
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
  { workspace: wanted, ...patience }: { readonly workspace?: string } & PatienceFlags,
  work: (asking: Asking) => Promise<Result>,
): Promise<Result> {
  const { runAdminOperation, longestAnswer, OPERATIONS } = await import('../admin/admin-operations.ts');
  const config = chooseWorkspace(session.config, wanted);
  const { data } = session.options;
  const clientOf = await clientFactory(session, config, patience);
  if (await hasOwner(data)) {
    const client = clientOf(sendThroughOwner(data, config.name));
    const ask: Asking['ask'] = (name, asked) => {
      const [method, path] = OPERATIONS[name].route ?? ['POST', `questions/${name}`];
      return askOwner(data, method, `/admin/workspaces/${config.name}/${path}`, asked, longestAnswer(name));
    };
    return work({ session, workspace: config.name, ask, client });
  }
  const { sendAudited } = await import('../admin/audit.ts');
  const { compose } = await import('../daemon/compose.ts');
  const composition = await compose(onlyOf(session, config), session.parts);
  try {
    const [partition] = composition.workspaces.partitions();
    if (!partition) throw new SyncError('internal', 'the workspace did not open');
    await warnOfOtherWorkspaces(session, composition.installation);
    const ask: Asking['ask'] = (name, asked) =>
      audibly('an answer', longestAnswer(name), () =>
        runAdminOperation(name, partition, asked, session.parts.clock, whoRuns().actor),
      );
    const client = clientOf((request, within) =>
      sendAudited(partition, request, { lane: 'interactive', patience: within }, whoRuns()),
    );
    return await work({ session, workspace: config.name, ask, client, partition });
  } finally {
    await composition.close();
  }
}

/** Makes the action of a command: asks its workspace, prints the output, and ends with its code. */
export type Answer = ReturnType<typeof answering>;

export function answering(setting: Setting, exit: Exit) {
  return <Flags extends WorkspaceFlags, Args extends readonly unknown[]>(
    work: (asking: Asking, flags: Flags, ...args: Args) => Promise<Output>,
  ) =>
    // Commander passes the arguments, the flags and the command.
    async (...given: readonly unknown[]): Promise<void> => {
      const flags = given.at(-2) as Flags;
      const session = await sessionOf(setting, flags, () => 'warn');
      const output = await askingWorkspace(session, flags, (asking) =>
        work(asking, flags, ...(given.slice(0, -2) as unknown as Args)),
      );
      show(output, flags);
      exit(output.code ?? 0);
    };
}

/** A command that is one admin operation. */
interface OperationCommand<Name extends AdminOperation, Flags, Args extends readonly unknown[]>
  extends Described,
    WorkspaceCommandOptions {
  readonly operation: Name;
  body(flags: Flags, ...args: Args): Asked<Name>;
  /** The answer for people. @param now epoch milliseconds */
  text(answer: Answered<Name>, now: number, flags: Flags, ...args: Args): string;
  /** The objects of `--json`; absent: the answer, or its elements. */
  json?(answer: Answered<Name>): readonly unknown[];
  readonly help?: string;
}

export function operationCommand<
  Name extends AdminOperation,
  Flags extends WorkspaceFlags,
  Args extends readonly unknown[],
>(
  group: Command,
  answer: Answer,
  { operation, body, text, json, help, ...described }: OperationCommand<Name, Flags, Args>,
): Command {
  const command = workspaceCommand(group, described, { costsQuota: false, ...described });
  if (help !== undefined) command.addHelpText('after', help);
  return command.action(
    answer(async ({ ask, session }, flags: Flags, ...args: Args) => {
      const found = await ask(operation, body(flags, ...args));
      const rows = json?.(found) ?? (Array.isArray(found) ? (found as readonly unknown[]) : [found]);
      return { text: text(found, session.parts.clock.now(), flags, ...args), json: rows };
    }),
  );
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
