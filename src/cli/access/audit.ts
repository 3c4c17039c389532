import type { Command } from 'commander';
import type { AuditEntry } from '../../admin/access/audit.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { systemClock } from '../../platform/lib/clock.ts';
import { askInstallation } from '../owner.ts';
import { OF_QUESTIONS, print, say, sinceOf, wholeNumber, withDaemonOptions } from '../setting.ts';
import { printable, table } from '../words.ts';

type AuditFlags = Flags & {
  readonly since?: string;
  readonly before?: number;
  readonly limit: number;
  readonly json?: boolean;
};

const MOST = 1_000;

/** Shows what people changed by commands and pages. */
export function addAudit(program: Command): void {
  withDaemonOptions(program.command('audit'), OF_QUESTIONS)
    .description('show what people changed by commands and pages, the latest first; uses no quota')
    .option('--since <time>', 'only what is newer: 2026-01-01, 2026-01-01T12:00:00Z, or 7d')
    .option('--limit <number>', `at most this many, up to ${MOST}`, wholeNumber, 50)
    .option('--before <number>', 'only entries older than the one with this number', wholeNumber)
    .option('--json', 'print JSON: one object in a line')
    .addHelpText('after', '\nExample: worksync audit --since 7d')
    .action(async ({ since, before, limit, json, ...flags }: AuditFlags) => {
      const from = since === undefined ? null : Date.parse(sinceOf(since, systemClock().now()));
      const page = { since: from, before: before ?? null, limit: Math.min(Math.max(1, limit), MOST) };
      const { entries, next } = await askInstallation(flags, '/admin/audit', page, async ({ query }) => {
        const { auditLog } = await import('../../admin/access/audit.ts');
        // An action without an end was not done, because no daemon runs.
        return auditLog(query, { ...page, workspaces: null }, Number.POSITIVE_INFINITY);
      });
      for (const line of json ? entries.map((entry) => JSON.stringify(entry)) : describe(entries)) print(line);
      if (next !== null) say(`There are older entries: --before ${next}`);
    });
}

function describe(entries: readonly AuditEntry[]): string[] {
  if (entries.length === 0) return ['nothing was changed'];
  const rows = entries.map(({ at, actor, workspace, action, subject, count, outcome, details }) => [
    new Date(at).toISOString(),
    printable(actor),
    workspace ?? '-',
    action,
    outcome + (count === null ? '' : ` (${count})`),
    printable([subject, details].filter((text) => text !== null).join(': ')),
  ]);
  return [table(rows)];
}
