import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Status } from '../../admin/status/status.ts';
import type { Finding } from '../../connectors/connector.ts';
import { asSyncError, CODES, type SyncError } from '../../model/errors.ts';
import { configFiles, type EnvFile } from '../../platform/config/config-files.ts';
import type { Flags } from '../../platform/config/daemon-options.ts';
import type { BrokenConfig } from '../../platform/config/load.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import { printable } from '../../platform/lib/text.ts';
import { findDaemon } from '../../store/installation/daemon-file.ts';
import { type AddCommands, FAILED, OF_HOOKS, print, sessionOf, withDaemonOptions, withWaitNotice } from '../command.ts';
import { askOwner, askStatus, hasOwner } from '../owner.ts';
import { exitOf } from '../report-error.ts';
import type { Session } from '../session.ts';

/** Milliseconds that the workspace and the providers may take to answer a check. */
const PATIENCE = 180_000;

export const addCheck: AddCommands = (program, setting) => {
  withDaemonOptions(program.command('check'), OF_HOOKS)
    .description('check the configuration, the workspace and the providers; uses up to four requests')
    .option('--offline', 'check only the configuration: sends no request, and needs no data folder')
    .option('--json', 'print one JSON object per finding')
    .addHelpText('after', '\nExample: worksync check --offline --json')
    .action(async ({ json, offline, ...flags }: Flags & { json?: boolean; offline?: boolean }) => {
      const session = await sessionOf(setting, flags, () => 'error').catch((thrown) => {
        // The output must contain the error too: without it, a script would see an empty list.
        if (json) print(asJson(describeBroken({ name: 'configuration', error: asSyncError(thrown) })));
        throw thrown;
      });
      const { findings, failure } = await check(session, { offline });
      print(json ? asJson(findings) : describeFindings(findings));
      const isBroken = session.config.broken.length > 0;
      setting.exit(isBroken ? CODES.config_invalid.exit : failure ? exitOf(failure) : exitCodeOf(findings));
    });
};

function asJson(findings: readonly Finding[]): string {
  return findings.map((finding) => JSON.stringify(finding)).join('\n');
}

/** Returns 75 if the quota did not allow a check: a pipeline must not take that for a pass. */
export function exitCodeOf(findings: readonly Finding[]): number {
  if (findings.some(({ level }) => level === 'error')) return FAILED;
  return findings.some(({ isPostponed }) => isPostponed) ? CODES.rate_limited.exit : 0;
}

/**
 * Configuration, workspace and providers. A running daemon asks in our place. Offline: the
 * configuration alone, which needs nothing but its files and variables.
 */
async function check(session: Session, { offline = false } = {}): Promise<Outcome> {
  const { config, options } = session;
  const findings = config.warnings.map((message): Finding => ({ level: 'warning', subject: 'configuration', message }));
  if (session.envFile) findings.push(...describeEnvFile(session.envFile));
  findings.push(...config.workspaces.map(describeConfig), ...config.broken.flatMap(describeBroken));
  findings.push(...(await describeDrafts(session)));
  if (offline) return { findings };
  if (await hasOwner(options.data)) {
    const asked = await askOwner<Finding[]>(options.data, 'POST', '/admin/check', undefined, PATIENCE);
    const running = await askStatus(options.data);
    const missing = missingFromDaemon(config, running);
    return { findings: [...findings, ...(missing.length > 0 ? missing : checkedOtherFiles(session)), ...asked] };
  }
  const { found, failure } = await checkHere(session);
  return { findings: [...findings, withoutDaemon(options.data), ...found], failure };
}

/** Reports that no daemon uses this data folder: one with another folder does not count the requests of this command. */
function withoutDaemon(folder: string): Finding {
  const message = `none uses the data folder ${folder}, so this command sends the requests; if yours uses another folder, pass it with --data`;
  return { level: 'ok', subject: 'daemon', message };
}

/** Warns of workspaces that the running daemon does not have: it was started with another configuration. */
function missingFromDaemon({ workspaces, broken }: Session['config'], running: Status): readonly Finding[] {
  const names = new Set(
    [...running.workspaces, ...running.broken, ...(running.elsewhere ?? [])].map(({ name }) => name),
  );
  const missing = [...workspaces, ...broken].map(({ name }) => name).filter((name) => !names.has(name));
  if (missing.length === 0) return [];
  return [
    {
      level: 'warning',
      subject: 'configuration',
      message: `the running daemon does not have ${missing.join(', ')}; it has ${[...names].join(', ') || 'none'}`,
      hint: 'If the daemon was started with --config, give this command the same --config.',
    },
  ];
}

/** Warns that the running daemon, which checks its own files, uses others than this command. */
function checkedOtherFiles({ options }: Session): readonly Finding[] {
  const used = findDaemon(options.data)?.config;
  if (options.config === undefined || (used !== undefined && !existsSync(used))) return [];
  const files = new Set(configFiles({ ...(used !== undefined && { path: used }) }).map((file) => resolve(file)));
  const others = configFiles({ path: options.config }).filter((file) => !files.has(resolve(file)));
  if (others.length === 0) return [];
  return [
    {
      level: 'warning',
      subject: 'configuration',
      message: `the running daemon uses ${[...files].join(', ')}: the findings below are about its files, and not about ${others.join(', ')}`,
      hint: 'Stop the daemon to check these files. "worksync plan --config <file>" shows beside the daemon what their rules would change.',
    },
  ];
}

async function describeDrafts({ drafts }: Session): Promise<readonly Finding[]> {
  const { commandFor } = await import('../../admin/installation/init.ts');
  const { displayName } = await import('../../platform/config/load.ts');
  return (await drafts()).map((path) => ({
    level: 'warning',
    subject: 'configuration',
    message: `${displayName(path)} is an unfinished draft, which worksync does not read`,
    hint: `Go on with it: ${commandFor(path)}. If you do not need it, delete it.`,
  }));
}

/** Names the variables and never their values. */
function describeEnvFile({ path, used, overridden, warnings }: EnvFile): readonly Finding[] {
  const parts = [
    used.length > 0 ? `sets ${used.join(', ')}` : 'sets nothing that the environment does not set',
    ...(overridden.length > 0 ? [`the environment comes first for ${overridden.join(', ')}`] : []),
  ];
  const subject = 'environment';
  return [
    { level: 'ok', subject, message: `${path}: ${parts.join('; ')}` },
    ...warnings.map((message): Finding => ({ level: 'warning', subject, message })),
  ];
}

interface Outcome {
  readonly findings: readonly Finding[];
  /** Why the data folder, or all of its workspaces, could not be opened. */
  readonly failure?: SyncError | undefined;
}

/** Runs the check in this process, which locks the data folder meanwhile. */
export async function checkHere(session: Session): Promise<{ found: readonly Finding[]; failure?: SyncError }> {
  const { options, parts, version } = session;
  const { compose } = await import('../../daemon/compose.ts');
  const { checkMachine, checkWhole } = await import('../../admin/status/check.ts');
  let composition: Awaited<ReturnType<typeof compose>>;
  try {
    composition = await compose(session, parts);
  } catch (thrown) {
    const failure = asSyncError(thrown);
    const machine = await checkMachine({ version, folder: options.data });
    return { found: [...describeBroken({ name: 'start', error: failure }), ...machine], failure };
  }
  const { workspaces, installation, serverClocks } = composition;
  try {
    const ground = { clock: parts.clock, version, installation, serverClocks };
    const ask = () => checkWhole({ partitions: workspaces.partitions(), wrong: workspaces.broken(), ...ground });
    return { found: await withWaitNotice('the workspace and the providers', PATIENCE, ask) };
  } finally {
    await composition.close();
  }
}

function describeConfig({ name, file, connections }: WorkspaceConfig): Finding {
  return { level: 'ok', subject: name, message: `${file} is valid; connections: ${connections.length}` };
}

export function describeBroken({
  name,
  error: { code, message, hint },
}: Pick<BrokenConfig, 'name' | 'error'>): Finding[] {
  return message.split('\n').map((line) => ({ level: 'error', subject: name, message: `${code}: ${line}`, hint }));
}

const MARKS = { ok: 'ok     ', warning: 'warning', error: 'ERROR  ' } as const;

export function describeFindings(findings: readonly Finding[]): string {
  return findings
    .flatMap(({ level, subject, message, hint }) => [
      printable(`${MARKS[level]}  ${subject}: ${message}`),
      ...(hint ? [printable(`         remedy: ${hint}`)] : []),
    ])
    .join('\n');
}
