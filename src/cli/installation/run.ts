import type { OnceResult } from '../../admin/installation/once.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import { PROGRAM } from '../../platform/lib/own-program.ts';
import { printable } from '../../platform/lib/text.ts';
import {
  type AddCommands,
  OF_WORK,
  PARTIAL,
  type PatienceFlags,
  print,
  refusingUnknown,
  sessionOf,
  withDaemonOptions,
  withPatience,
  withWaitNotice,
} from '../command.ts';
import type { Session } from '../session.ts';
import { plural } from '../words.ts';

/** `worksync run`, and `worksync` alone. */
export const addRun: AddCommands = (program, setting) => {
  refusingUnknown(withDaemonOptions(program.command('run', { isDefault: true })))
    .description('run the daemon; without a workspace file of yours it runs the embedded demo')
    .addHelpText('after', '\nExample: worksync run --config config/workspaces --data data --port 8080')
    .action(async (flags: Flags) => {
      // The demo is a first look on a terminal: its summary is not to drown in log lines.
      const level = ({ secrets }: Session['config'], demoSecret: string) =>
        secrets.includes(demoSecret) ? 'warn' : 'info';
      const { endAtOnceOnSignals } = await import('../signals.ts');
      const release = endAtOnceOnSignals();
      const session = await sessionOf(setting, flags, level, true);
      const { run } = await import('./run-daemon.ts');
      release();
      await run(session);
      setting.exit(undefined);
    });
};

const DEMO_CONFIG = `${PROGRAM}/config/default.yaml`;

export const addDemo: AddCommands = (program, setting) => {
  program
    .command('demo')
    .description('play the bundled deliveries on fresh data, print the result, and exit')
    .option('--json', 'print the result as one JSON object on the last line')
    .addHelpText('after', '\nExample: worksync demo --json')
    .exitOverride()
    .action(async ({ json }: { json?: boolean }) => {
      const session = await sessionOf(setting, { config: DEMO_CONFIG }, () => 'warn');
      const { demo, describeDemo } = await import('./play-demo.ts');
      const result = await demo(session);
      print(describeDemo(result));
      if (json) print(JSON.stringify(result));
      setting.exit(result.pending === 0 ? 0 : PARTIAL);
    });
};

/** Default wait for the quota, milliseconds: one long window. */
const LONGEST_ONCE = 900_000;
/** Milliseconds that the vendors may take to answer one round of polls. */
const POLLS = 600_000;

export const addOnce: AddCommands = (program, setting) => {
  withPatience(withDaemonOptions(program.command('once'), OF_WORK), LONGEST_ONCE)
    .description('poll, apply, send what the quota allows, and exit (exit code 3 if something is left)')
    .option('--json', 'print one JSON object per workspace')
    .addHelpText('after', '\nExample: worksync once --config team.yaml --timeout 5m --json')
    .action(async ({ json, timeout = LONGEST_ONCE, ...flags }: Flags & PatienceFlags & { json?: boolean }) => {
      const session = await sessionOf(setting, flags, () => 'warn');
      const results = await once(session, timeout);
      for (const result of results) print(json ? JSON.stringify(result) : describeOnce(result));
      setting.exit(results.some(({ left, failures }) => left > 0 || failures.length > 0) ? PARTIAL : 0);
    });
};

/** Polls and processes everything, sends what the quota allows, and ends. A running daemon does it. */
async function once(session: Session, patience: number): Promise<readonly OnceResult[]> {
  const { askOwnerOr } = await import('../owner.ts');
  const path = `/admin/once?patience=${patience}`;
  return askOwnerOr(session.options.data, path, undefined, () => onceAlone(session, patience), patience + POLLS);
}

async function onceAlone(session: Session, patience: number): Promise<readonly OnceResult[]> {
  const { parts } = session;
  const { compose } = await import('../../daemon/compose.ts');
  const { pollOnce } = await import('../../admin/installation/once.ts');
  const composition = await compose(session, parts);
  try {
    for (const partition of composition.workspaces.partitions()) partition.startUnscheduled();
    const poll = () =>
      Promise.all(composition.workspaces.partitions().map((each) => pollOnce(each, parts.clock, patience)));
    return await withWaitNotice('polls, and for free quota', patience, poll);
  } finally {
    await composition.close();
  }
}

function describeOnce({ workspace, pullRequests, links, left, failures }: OnceResult): string {
  const held = `${workspace}: ${plural(pullRequests, 'pull request')}, ${plural(links, 'link')}, ${left} left`;
  return [held, ...failures.map((failure) => `  failed: ${printable(failure)}`)].join('\n');
}
