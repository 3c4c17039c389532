import type { Command } from 'commander';
import type { Refused } from '../../admin/access/refused.ts';
import type { Answered } from '../../admin/admin-operations.ts';
import { DELIVERY_SOURCES, DELIVERY_STATES, type DeliveryOrigin, type DeliveryState } from '../../model/delivery.ts';
import { SyncError } from '../../model/errors.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { askInstallation } from '../owner.ts';
import { OF_QUESTIONS, oneOf, type Setting, wholeNumber } from '../setting.ts';
import { at, brief, plural, printable, table } from '../words.ts';
import type { CommandContext } from '../workspace-client.ts';
import {
  type Output,
  operationCommand,
  requestCommand,
  show,
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
export function addDeliveries(program: Command, setting: Setting): void {
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
}

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

export function describeRefused(refused: Refused, withHeaders: boolean): string {
  const { method, path, status, code, address, count, firstAt, lastAt, headers, reason } = refused;
  const often = count === 1 ? '' : `, ${plural(count, 'time')} since ${at(firstAt)}`;
  return [
    `${at(lastAt)}  refused  ${method} ${path} from ${address}: ${status} ${code}${often}`,
    `    ${reason}`,
    ...(withHeaders ? headers.map(([name, value]) => `    ${name}: ${value}`) : []),
  ]
    .map(printable)
    .join('\n');
}
