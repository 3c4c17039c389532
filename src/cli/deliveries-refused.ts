import type { Command } from 'commander';
import type { Refused } from '../admin/refused.ts';
import type { Flags } from '../platform/config/daemon-options.ts';
import { askInstallation } from './owner.ts';
import { OF_QUESTIONS, wholeNumber } from './setting.ts';
import { at, plural, printable } from './words.ts';
import { show, workspaceCommand } from './workspace-command.ts';

/** worksync stores no more. */
const MOST = 500;

type RefusedFlags = Flags & {
  readonly workspace?: string;
  readonly limit: number;
  readonly headers?: boolean;
  readonly json?: boolean;
};

/** `worksync deliveries refused`: requests that were received and refused. */
export function addRefused(group: Command): void {
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
        const { refusedRequests } = await import('../admin/refused.ts');
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
