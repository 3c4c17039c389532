import type { BrokenConfig } from '../config/load.ts';
import type { WorkspaceConfig } from '../config/schema.ts';
import type { Finding } from '../connectors/connector.ts';
import { compose } from '../daemon/compose.ts';
import { checkAll } from '../operator/check.ts';
import { askOwner, hasOwner } from './owner.ts';
import { audibly } from './patience.ts';
import type { Session } from './session.ts';
import { printable } from './words.ts';

/** The longest that workspace and providers take over the questions of a check, milliseconds. */
const PATIENCE = 180_000;

/**
 * `worksync check`: configuration, workspace and providers. A running daemon asks in our place. Offline: the
 * configuration alone, which needs nothing but its files and variables.
 */
export async function check(session: Session, { offline = false } = {}): Promise<Finding[]> {
  const { config, options, parts } = session;
  const findings = config.warnings.map((message): Finding => ({ level: 'warning', subject: 'configuration', message }));
  findings.push(...config.workspaces.map(describeConfig), ...config.broken.flatMap(describeBroken));
  if (offline) return findings;
  if (await hasOwner(options.data)) {
    return [...findings, ...(await askOwner<Finding[]>(options.data, 'POST', '/admin/check', undefined, PATIENCE))];
  }
  const composition = await compose(session, parts);
  try {
    const ask = () =>
      checkAll({ partitions: composition.workspaces.partitions(), wrong: composition.workspaces.broken() });
    findings.push(...(await audibly('the workspace and the providers', PATIENCE, ask)));
  } finally {
    await composition.close();
  }
  return findings;
}

function describeConfig({ name, file, connections }: WorkspaceConfig): Finding {
  return { level: 'ok', subject: name, message: `${file} is valid; connections: ${connections.length}` };
}

/** Each place on a line of its own. */
function describeBroken({ name, error: { code, message, hint } }: BrokenConfig): Finding[] {
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
