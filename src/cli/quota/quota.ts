import { Option } from 'commander';
import type { QuotaByCaller, QuotaReport, Used } from '../../admin/quota/quota.ts';
import { LANES } from '../../model/change.ts';
import { printable } from '../../platform/lib/text.ts';
import type { AddCommands } from '../command.ts';
import { percent, plural, span, table } from '../words.ts';
import { requestCommand, type WorkspaceFlags } from '../workspace-command.ts';

/**
 * `worksync quota`: both windows, the share and why, the others, the lanes, and when what waits will have been sent.
 * `--by caller`: who used it.
 */
export const addQuota: AddCommands = (program, setting) => {
  requestCommand(program, setting, {
    usage: 'quota',
    description: 'show how much of the quota is used, by whom, what waits, and for how long; uses no quota',
    example: 'quota --json',
    async run({ request }, { by }: WorkspaceFlags & { readonly by?: 'caller' }) {
      if (by === undefined) {
        const report = await request('quota', {});
        return { text: describeQuota(report), json: [report] };
      }
      const uses = await request('quota-by-caller', {});
      return { text: describeCallers(uses), json: [uses] };
    },
  }).addOption(new Option('--by <what>', 'show who used it lately instead').choices(['caller']));
};

function describeQuota(report: QuotaReport): string {
  const { at, long, burst, lanes, inFlight, nextSlotAt, forecast } = report;
  const next = nextSlotAt === null ? 'after the next answer' : `${until(nextSlotAt, at)}`;
  return [
    `windows    ${describeWindow(long)}; ${describeWindow(burst)}`,
    `share      ${describeShare(report)}`,
    `others     ${describeOthers(report)}`,
    `lanes      ${LANES.map((lane) => `${lane} ${lanes[lane]}`).join(', ')}; in flight ${inFlight}; next slot ${next}`,
    `forecast   ${describeForecast(forecast, at)}`,
  ].join('\n');
}

function describeCallers({ callers, window, at, lastRefusal }: QuotaByCaller): string {
  const rows = callers.map(({ name, isEstimate, ...use }) => {
    const used = (each: Used) => `${isEstimate && each.requests > 0 ? '≥ ' : ''}${describeUsed(each)}`;
    return [used(use.window), used(use.day), used(use.week), printable(name)];
  });
  const uses = table([[span(window), '24 h', '7 days', 'caller'], ...rows]);
  const others = lastRefusal
    ? `The workspace last refused one of our requests ${span(at - lastRefusal.at)} ago. Only refusals show that others use the quota.`
    : 'The workspace has refused none of our requests, so worksync knows of no others.';
  return [...(callers.length === 0 ? ['no request was sent in 7 days'] : [uses]), others].join('\n');
}

function describeUsed({ requests, refused }: Used): string {
  return refused === 0 ? `${requests}` : `${requests} (${refused} refused)`;
}

function describeWindow({ window, used, usedByBackground, cap, backgroundLimit }: QuotaReport['long']): string {
  if (cap === null) return `no limit in ${span(window)}`;
  return `${used} of ${cap} used by us in ${span(window)}, ${usedByBackground} of at most ${backgroundLimit} in the background`;
}

function describeShare({ configuredShare, effectiveShare, ceiling, limited, paused, at }: QuotaReport): string {
  const isAuto = configuredShare === 'auto';
  const part = percent(effectiveShare);
  const share = isAuto ? `auto: ${part} of the long window` : `${part} of both windows`;
  if (paused) return `${share}; nothing is sent for ${span(paused.until - at)}: ${paused.reason}`;
  if (limited) return `${share}; refused recently: one request at a time`;
  if (effectiveShare < ceiling)
    return `${share}: cut by a refusal, growing back to ${isAuto ? '' : 'the configured '}${percent(ceiling)}`;
  return isAuto ? `${share}, growing while no other use is detected` : `${share}, as configured`;
}

function describeOthers({ lastRefusal, long, burst, at }: QuotaReport): string {
  if (!lastRefusal) return 'unknown: the workspace has refused none of our requests';
  const { window, othersLong, othersBurst } = lastRefusal;
  const counts = [
    ...(window === 'burst' ? [] : [`${othersLong} of ${long.cap} in ${span(long.window)}`]),
    ...(window === 'long' ? [] : [`${othersBurst} of ${burst.cap} in ${span(burst.window)}`]),
  ];
  return `used ${counts.join(', or ')} when we were refused ${span(at - lastRefusal.at)} ago`;
}

function describeForecast({ requests, backfill, held, drainedAt }: QuotaReport['forecast'], at: number): string {
  const approval = held > 0 ? `; ${plural(held, 'change')} more need approval` : '';
  if (requests === 0) return `nothing waits${approval}`;
  const filled = backfill > 0 ? `, ${backfill} of them for backfills,` : '';
  return `the last of ${plural(requests, 'waiting request')}${filled} is sent ${until(drainedAt, at)}${approval}`;
}

function until(time: number, now: number): string {
  return time <= now ? 'now' : `in ${span(time - now)}`;
}
