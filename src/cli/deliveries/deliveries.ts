import type { Command } from 'commander';
import type { Refused } from '../../admin/access/refused.ts';
import type { Answered } from '../../admin/admin-operations.ts';
import type { Status } from '../../admin/status/status.ts';
import { DELIVERY_SOURCES, DELIVERY_STATES, type DeliveryOrigin, type DeliveryState } from '../../model/delivery.ts';
import { SyncError } from '../../model/errors.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { asTyped } from '../../platform/lib/own-program.ts';
import { printable } from '../../platform/lib/text.ts';
import {
  type AddCommands,
  collect,
  daemonCommand,
  OF_QUESTIONS,
  type Output,
  oneOf,
  print,
  say,
  show,
  wholeNumber,
} from '../command.ts';
import { askInstallation, askOwner, placeOf, pollEvery } from '../owner.ts';
import { at, brief, plural, table } from '../words.ts';
import {
  type CommandContext,
  operationCommand,
  requestCommand,
  type WorkspaceFlags,
  workspaceCommand,
} from '../workspace-command.ts';
import { describeTimeline } from './waterfall.ts';

const LARGEST_PAGE = 200;

interface FilterFlags extends WorkspaceFlags {
  readonly state?: DeliveryState;
  readonly connection?: string;
  readonly source?: DeliveryOrigin;
}

function withFilter(command: Command): Command {
  return command
    .option('--state <state>', `one of ${DELIVERY_STATES.join(', ')}`, oneOf(DELIVERY_STATES))
    .option('--connection <name>', 'of this connection')
    .option('--source <source>', `one of ${DELIVERY_SOURCES.join(', ')}`, oneOf(DELIVERY_SOURCES));
}

function filterOf({ state, connection, source }: FilterFlags) {
  return { state, connection, source };
}

type ListFlags = FilterFlags & { readonly limit: number; readonly before?: number; readonly own?: boolean };
type ShowFlags = WorkspaceFlags & { readonly raw?: boolean; readonly decoded?: boolean };
type ReplayFlags = FilterFlags & { readonly yes?: boolean };

/** Adds the commands that list, show and replay deliveries. */
export const addDeliveries: AddCommands = (program, setting) => {
  const group = program.command('deliveries').description('what came in: list, show, replay, refused').exitOverride();
  const list = operationCommand(group, setting, {
    usage: 'list [delivery|item]',
    description: 'list deliveries, the newest first: all, one by its id, or those that changed an item (the default)',
    example: 'deliveries list acme/app#7',
    isDefault: true,
    operation: 'deliveries',
    body: ({ before, limit, own, ...flags }: ListFlags, about: string | undefined) => ({
      ...filterOf(flags),
      about,
      own,
      before,
      limit: Math.min(Math.max(1, limit), LARGEST_PAGE),
    }),
    text: describePage,
  });
  withFilter(list)
    .option('--own', "also the workspace's answers to worksync, and its webhooks")
    .option('--limit <number>', 'at most this many', wholeNumber, 50)
    .option('--before <number>', 'older than the delivery of this number', wholeNumber);
  operationCommand(group, setting, {
    usage: 'show <delivery>',
    description:
      "show what a delivery said, and what worksync decided, sent and was answered; by its number or the vendor's id",
    example: 'deliveries show 72d3162e-cc78-11e3-81ab-4c9367dc0958',
    operation: 'delivery',
    body: (_flags: ShowFlags, delivery: string) => ({ delivery }),
    text: (answer, _now, flags) => describeDelivery(answer, flags),
  })
    .option('--raw', 'also the body as it was received')
    .option('--decoded', 'also the items as worksync reads them');
  const replay = requestCommand(group, setting, {
    usage: 'replay [delivery|item...]',
    description:
      'judge deliveries again by the present rules: those with these ids, those that changed these items, or those that the flags select',
    example: 'deliveries replay --connection github --state ignored',
    run: replayNamed,
  });
  withFilter(replay).option(
    '--yes',
    'replay what the flags select; without it the command only shows how many there are',
  );
  addRefused(group);
};

async function replayNamed({ request }: CommandContext, flags: ReplayFlags, named: readonly string[]): Promise<Output> {
  const filter = filterOf(flags);
  const isChosen = Object.values(filter).some((value) => value !== undefined);
  if (named.length === 0 && !isChosen)
    throw new SyncError('usage', 'name deliveries or items, or select some with --state, --connection or --source');
  const preview = named.length === 0 && !flags.yes;
  const results: Replayed[] = [];
  for (const about of named.length === 0 ? [undefined] : named)
    results.push(await request('replay', { ...filter, about, preview }));
  return { text: results.map((each) => describeReplay(each, preview)).join('\n'), json: results };
}

type Page = Answered<'deliveries'>;

function describePage({ deliveries, next, lookedBackTo }: Page): string {
  const rows = deliveries.map(({ id, receivedAt, connection, source, event, state, items, key, reason }) =>
    [
      String(id),
      at(receivedAt),
      `${connection} ${source} ${event}`,
      reason === null ? state : `${state}: ${reason}`,
      (items ?? []).map(({ label }) => label).join('; '),
      key,
    ].map(printable),
  );
  // With a rare state a page ends where enough was looked at.
  const back = rows.length > 0 || lookedBackTo === null ? '' : `looked back to ${at(lookedBackTo)}; `;
  return [
    ...(rows.length === 0 ? ['no deliveries'] : [table(rows)]),
    ...(next === null ? [] : [`${back}older ones: --before ${next}`]),
  ].join('\n');
}

type Told = Answered<'delivery'>;

export function describeDelivery({ delivery, verified, read, courses, body }: Told, flags: ShowFlags = {}): string {
  const { id, key, source, event, connection, receivedAt, settledAt, state, reason, attempts, bytes } = delivery;
  const size = bytes === null ? 'its body was purged' : plural(bytes, 'byte');
  const after = settledAt === null ? '' : ` after ${brief(settledAt - receivedAt)}`;
  const failed = attempts === 0 ? '' : `, ${plural(attempts, 'failed attempt')}`;
  const decoded = read?.outcome === 'items' ? read.decoded : undefined;
  return [
    printable(`delivery ${id}  ${key}`),
    printable(`  received  ${at(receivedAt)}  ${source} ${event} of ${connection}, ${size}`),
    printable(`  verified  ${verified}`),
    ...sayingOf(read).map((line) => printable(`  says      ${line}`)),
    printable(`  decided   ${state}${after}${reason === null ? '' : `: ${reason}`}${failed}`),
    ...(courses.length === 0 ? ['  sent      nothing'] : []),
    ...courses.flatMap(describeTimeline).map((line) => `  ${line}`),
    ...(flags.decoded && decoded ? lines('decoded', decoded) : []),
    ...(flags.raw && body ? lines(body.encoding === 'utf8' ? 'body' : `body in ${body.encoding}`, body) : []),
  ].join('\n');
}

const DECISIONS = {
  changed: 'changed it',
  unchanged: 'nothing new',
  forgotten: 'too long ago to tell whether it changed it',
  pending: 'not judged yet',
  unknown: 'worksync holds no such item',
} as const;

function sayingOf(read: Told['read']): string[] {
  if (read === null) return ['unknown: its body was purged'];
  if (read.outcome === 'ignored') return [`nothing of interest: ${read.reason}`];
  if (read.outcome === 'failed') return [`it cannot be read: ${read.code}: ${read.message}`];
  if (read.outcome === 'answer') return [`the workspace's answer to ${read.action} (${read.entity})`];
  const { items, count } = read;
  const more = count > items.length ? [`and ${count - items.length} more`] : [];
  const described = items.map(({ label, key, decision, isFetched }) => {
    const fetched = isFetched ? ', and asked its vendor for it' : '';
    return `${label}  (${key}): ${DECISIONS[decision]}${fetched}`;
  });
  return described.length === 0 ? ['no items'] : [...described, ...more];
}

function lines(head: string, { text, isCut }: { readonly text: string; readonly isCut: boolean }): string[] {
  const shown = text.split('\n').map((line) => printable(line));
  return [`${head}${isCut ? ', cut' : ''}:`, ...shown];
}

type Replayed = Answered<'replay'>;

function describeReplay({ replayed, pending, purged, own, more }: Replayed, preview: boolean): string {
  const left = [
    ...(pending > 0 ? [`${pending} pending already`] : []),
    ...(purged > 0 ? [`${purged} without a body any more`] : []),
    ...(own > 0 ? [`${own} of the workspace, which are not replayed`] : []),
    ...(more ? ['more are left for another replay'] : []),
  ];
  const head = `${preview ? 'would be judged again' : 'judged again'}: ${plural(replayed, 'delivery', 'deliveries')}`;
  return `${[head, ...left].join('; ')}${preview ? '. Add --yes to do it.' : ''}`;
}

const MOST = 500;

type RefusedFlags = Flags & {
  readonly workspace?: string;
  readonly limit: number;
  readonly headers?: boolean;
  readonly json?: boolean;
};

/** `worksync deliveries refused`: requests that were received and refused. */
function addRefused(group: Command): void {
  workspaceCommand(group, {
    usage: 'refused',
    description: 'list requests that webhook addresses and the gateway refused, the latest first, and why',
    example: 'deliveries refused --limit 5 --headers',
    shown: OF_QUESTIONS,
    costsQuota: false,
  })
    .option('--limit <number>', `at most this many, up to ${MOST}`, wholeNumber, 50)
    .option('--headers', 'also the headers, without secrets')
    .action(async ({ workspace, limit, headers = false, json, ...flags }: RefusedFlags) => {
      const wanted = { limit: Math.min(limit, MOST) };
      const named = workspace === undefined ? undefined : encodeURIComponent(workspace);
      const path = named === undefined ? '/admin/refused' : `/admin/workspaces/${named}/questions/refused`;
      const found = await askInstallation(flags, path, wanted, async ({ query }) => {
        const { refusedRequests } = await import('../../admin/access/refused.ts');
        return refusedRequests(query, { ...wanted, workspaces: workspace === undefined ? null : [workspace] });
      });
      const text = found.map((each) => describeRefused(each, headers)).join('\n');
      show({ text: text || 'nothing was refused', json: found }, { json });
    });
}

function describeRefused(refused: Refused, withHeaders: boolean): string {
  const { method, path, status, code, address, count, firstAt, lastAt, headers, reason } = refused;
  const often = count === 1 ? '' : `, ${plural(count, 'time')} since ${at(firstAt)}`;
  return [
    `${at(lastAt)}  refused  ${method} ${path} from ${address}: ${status} ${code}${often}`,
    `    ${asTyped(reason)}`,
    ...(withHeaders ? headers.map(([name, value]) => `    ${name}: ${value}`) : []),
  ]
    .map(printable)
    .join('\n');
}

const LISTED = 100;

/** `worksync quarantine`: lists, retries and dismisses deliveries that could not be read. */
export const addQuarantine: AddCommands = (program, setting) => {
  const group = program
    .command('quarantine')
    .description('deliveries that could not be read: list, retry, dismiss')
    .exitOverride();
  operationCommand(group, setting, {
    usage: 'list',
    description: `list the latest ${LISTED} deliveries in quarantine, and why they are there (the default)`,
    example: 'quarantine --json',
    isDefault: true,
    operation: 'quarantine',
    body: () => ({ limit: LISTED }),
    text: (found) =>
      found
        .map(({ id, connection, event, receivedAt, reason }) =>
          printable(`${id}  ${new Date(receivedAt).toISOString()}  ${connection} ${event}: ${reason ?? ''}`),
        )
        .join('\n') || 'nothing is in quarantine',
  });
  operationCommand(group, setting, {
    usage: 'retry [delivery...]',
    description: 'read deliveries in quarantine again, by their numbers in the list',
    example: 'quarantine retry 4711',
    operation: 'retry',
    body: chosenDeliveries,
    text: ({ retried }) => describeDone('to be read again', retried),
  }).option(...ALL);
  operationCommand(group, setting, {
    usage: 'dismiss [delivery...]',
    description: 'ignore deliveries in quarantine, by their numbers in the list; "deliveries replay" reads them later',
    example: 'quarantine dismiss 4711',
    operation: 'dismiss',
    body: chosenDeliveries,
    text: ({ dismissed }) => describeDone('dismissed', dismissed),
  }).option(...ALL);
};

const ALL = ['--all', 'everything that is in quarantine'] as const;

type SelectionFlags = WorkspaceFlags & { readonly all?: boolean };

/** Returns the ids of the named deliveries; none for `--all`. Throws `usage` unless exactly one of the two is given. */
function chosenDeliveries({ all = false }: SelectionFlags, deliveries: readonly string[]): { readonly ids?: number[] } {
  const areNumbers = deliveries.every((each) => /^[1-9][0-9]{0,14}$/.test(each));
  if (!areNumbers || deliveries.length > 0 === all)
    throw new SyncError('usage', 'name deliveries by their numbers in "worksync quarantine list", or use --all');
  return all ? {} : { ids: deliveries.map(Number) };
}

function describeDone(done: string, count: number): string {
  if (count === 0) return 'none of these deliveries is in quarantine';
  return `${done}: ${plural(count, 'delivery', 'deliveries')}`;
}

const POLL_EVERY = 1_000;
/** Deliveries, and refused requests, of one poll; further ones are counted, and `deliveries list` has them. */
const PAGE = 100;

type ListenFlags = Flags & { readonly workspace?: readonly string[]; readonly own?: boolean; readonly json?: boolean };

const LISTEN_HELP = `
A delivery is shown when it arrives, and again when it is judged. The command shows only what comes from now on, reads nothing but
the daemon's own database, and uses no quota.

Example: worksync listen --workspace team`;

/** `worksync listen`: deliveries and refused requests as they come. */
export const addListen: AddCommands = (program) => {
  daemonCommand(program, 'listen')
    .description('print deliveries and refused requests as they come, until a signal ends the command')
    .option('--workspace <name>', 'of this workspace only; may be repeated', collect)
    .option('--own', "also the workspace's answers to worksync, and its webhooks")
    .option('--json', 'print JSON: one object in a line')
    .addHelpText('after', LISTEN_HELP)
    .action(async ({ workspace, own, json, ...flags }: ListenFlags) => {
      const { data } = await placeOf(flags);
      const listener = createListener({ workspaces: workspace, own }, (method, path, asked) =>
        askOwner(data, method, path, asked),
      );
      await listener.poll();
      say('Listening. Ctrl-C ends.');
      await pollEvery(POLL_EVERY, async () => {
        for (const event of await listener.poll()) print(json ? JSON.stringify(event) : describeEvent(event));
      });
    });
};

type Delivery = Answered<'deliveries'>['deliveries'][number];

/** The events since the last poll, the oldest first. */
export type ListenEvent =
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

  async function readDeliveries(workspace: string): Promise<ListenEvent[]> {
    const path = `/admin/workspaces/${encodeURIComponent(workspace)}/questions/deliveries`;
    const { deliveries } = await ask<Answered<'deliveries'>>('POST', path, { limit: PAGE, own });
    const before = seen.get(workspace);
    seen.set(workspace, new Map(deliveries.map(({ id, state }) => [id, state])));
    if (!before) return [];
    const newest = Math.max(0, ...before.keys());
    const isNewOrChanged = ({ id, state }: Delivery) => id > newest || (before.has(id) && before.get(id) !== state);
    const found = deliveries.filter(isNewOrChanged);
    const areMore = found.length === PAGE;
    const events = found.toReversed().map((each) => ({ kind: 'delivery' as const, workspace, ...each }));
    return [...(areMore ? [{ kind: 'more' as const, workspace }] : []), ...events];
  }

  async function readRefused(): Promise<ListenEvent[]> {
    const refused = await ask<readonly Refused[]>('POST', '/admin/refused', { limit: PAGE });
    const before = refusals;
    refusals = new Map(refused.map((each) => [refusalKey(each), each.count]));
    if (!before) return [];
    return refused
      .filter(({ workspace }) => workspaces === undefined || (workspace !== null && workspaces.includes(workspace)))
      .filter((each) => (before.get(refusalKey(each)) ?? 0) < each.count)
      .toReversed()
      .map((each) => ({ kind: 'refused', ...each }));
  }

  return {
    async poll(): Promise<readonly ListenEvent[]> {
      const named = workspaces ?? (await ask<Status>('GET', '/status.json')).workspaces.map(({ name }) => name);
      const events: ListenEvent[] = [];
      for (const workspace of named) events.push(...(await readDeliveries(workspace)));
      return [...events, ...(await readRefused())];
    },
  };
}

/** Returns the key under which refused requests are one with a count. */
function refusalKey({ method, path, status, code, address, firstAt }: Refused): string {
  return JSON.stringify([method, path, status, code, address, firstAt]);
}

/** One line, and one more for the reason of a refusal. */
export function describeEvent(listened: ListenEvent): string {
  if (listened.kind === 'refused') return describeRefused(listened, false);
  if (listened.kind === 'more')
    return printable(`${listened.workspace}: more came than is shown; "worksync deliveries" lists them`);
  const { id, workspace, receivedAt, connection, source, event, state, reason, items, key } = listened;
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
