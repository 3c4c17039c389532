import type { Command } from 'commander';
import type { Refused } from '../../admin/access/refused.ts';
import type { Answered } from '../../admin/admin-operations.ts';
import type { Status } from '../../admin/status/status.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { askOwner, keepLooking, placeOf } from '../owner.ts';
import { OF_QUESTIONS, print, say, withDaemonOptions } from '../setting.ts';
import { printable } from '../words.ts';
import { gather } from '../workspace-command.ts';
import { describeRefused } from './deliveries.ts';

const POLL_EVERY = 1_000;
/** Deliveries, and refused requests, of one poll; further ones are counted, and `deliveries list` has them. */
const PAGE = 100;

type ListenFlags = Flags & { readonly workspace?: readonly string[]; readonly own?: boolean; readonly json?: boolean };

const HELP = `
A delivery is shown when it arrives, and again when it is judged. The command shows only what comes from now on, reads nothing but
the daemon's own database, and uses no quota.

Example: worksync listen --workspace team`;

/** `worksync listen`: deliveries and refused requests as they come. */
export function addListen(program: Command): void {
  withDaemonOptions(program.command('listen'), OF_QUESTIONS)
    .description('print deliveries and refused requests as they come, until a signal ends the command')
    .option('--workspace <name>', 'of this workspace only; may be repeated', gather)
    .option('--own', "also the workspace's answers to worksync, and its webhooks")
    .option('--json', 'print JSON: one object in a line')
    .addHelpText('after', HELP)
    .action(async ({ workspace, own, json, ...flags }: ListenFlags) => {
      const { data } = await placeOf(flags);
      const listener = createListener({ workspaces: workspace, own }, (method, path, asked) =>
        askOwner(data, method, path, asked),
      );
      await listener.look();
      say('Listening. Ctrl-C ends.');
      await keepLooking(POLL_EVERY, async () => {
        for (const heard of await listener.look()) print(json ? JSON.stringify(heard) : describeHeard(heard));
      });
    });
}

type Delivery = Answered<'deliveries'>['deliveries'][number];

/** The events since the last poll, the oldest first. */
export type Heard =
  | ({ readonly kind: 'delivery'; readonly workspace: string } & Delivery)
  | ({ readonly kind: 'refused' } & Refused)
  | { readonly kind: 'more'; readonly workspace: string };

type Ask = <Answer>(method: 'GET' | 'POST', path: string, asked?: object) => Promise<Answer>;

interface Wanted {
  readonly workspaces?: readonly string[] | undefined;
  readonly own?: boolean | undefined;
}

/** The first poll finds the start, and reports nothing. */
export function createListener({ workspaces, own }: Wanted, ask: Ask) {
  /** The states of the deliveries on the last page, by workspace. */
  const seen = new Map<string, ReadonlyMap<number, Delivery['state']>>();
  let refusals: ReadonlyMap<string, number> | undefined;

  async function lookAtDeliveries(workspace: string): Promise<Heard[]> {
    const path = `/admin/workspaces/${encodeURIComponent(workspace)}/questions/deliveries`;
    const { deliveries } = await ask<Answered<'deliveries'>>('POST', path, { limit: PAGE, own });
    const before = seen.get(workspace);
    seen.set(workspace, new Map(deliveries.map(({ id, state }) => [id, state])));
    if (!before) return [];
    const newest = Math.max(0, ...before.keys());
    const isNews = ({ id, state }: Delivery) => (id > newest ? true : before.has(id) && before.get(id) !== state);
    const found = deliveries.filter(isNews);
    const areMore = found.length === PAGE;
    const events = found.toReversed().map((each) => ({ kind: 'delivery' as const, workspace, ...each }));
    return [...(areMore ? [{ kind: 'more' as const, workspace }] : []), ...events];
  }

  async function lookAtRefused(): Promise<Heard[]> {
    const refused = await ask<readonly Refused[]>('POST', '/admin/refused', { limit: PAGE });
    const before = refusals;
    refusals = new Map(refused.map((each) => [likeness(each), each.count]));
    if (!before) return [];
    return refused
      .filter(({ workspace }) => workspaces === undefined || (workspace !== null && workspaces.includes(workspace)))
      .filter((each) => (before.get(likeness(each)) ?? 0) < each.count)
      .toReversed()
      .map((each) => ({ kind: 'refused', ...each }));
  }

  return {
    async look(): Promise<readonly Heard[]> {
      const named = workspaces ?? (await ask<Status>('GET', '/status.json')).workspaces.map(({ name }) => name);
      const heard: Heard[] = [];
      for (const workspace of named) heard.push(...(await lookAtDeliveries(workspace)));
      return [...heard, ...(await lookAtRefused())];
    },
  };
}

/** Returns the key under which refused requests are one with a count. */
function likeness({ method, path, status, code, address, firstAt }: Refused): string {
  return JSON.stringify([method, path, status, code, address, firstAt]);
}

/** One line, and one more for the reason of a refusal. */
export function describeHeard(heard: Heard): string {
  if (heard.kind === 'refused') return describeRefused(heard, false);
  if (heard.kind === 'more')
    return printable(`${heard.workspace}: more came than is shown; "worksync deliveries" lists them`);
  const { id, workspace, receivedAt, connection, source, event, state, reason, items, key } = heard;
  return [
    new Date(receivedAt).toISOString(),
    reason === null ? state : `${state}: ${reason}`,
    `${workspace}/${connection} ${source} ${event}`,
    (items ?? []).map(({ label }) => label).join('; '),
    `delivery ${id} (${key})`,
  ]
    .filter((text) => text !== '')
    .map(printable)
    .join('  ');
}
