import type { WorkspaceConfig } from '../config/schema.ts';
import type { Finding } from '../connectors/connector.ts';
import { compose } from '../daemon/compose.ts';
import type { Partition } from '../daemon/partition.ts';
import { asSyncError } from '../errors/sync-error.ts';
import type { Session } from './session.ts';
import { printable } from './words.ts';

/** Milliseconds that a provider may take. */
const LONGEST_CHECK = 30_000;

/** `worksync check`: configuration, workspace and providers, each with its remedy. Costs one request of the quota. */
export async function check(session: Session): Promise<Finding[]> {
  const findings = session.config.warnings.map(
    (message): Finding => ({ level: 'warning', subject: 'configuration', message }),
  );
  findings.push(...session.config.workspaces.map(describeConfig));
  const composition = await compose(session, session.parts);
  try {
    for (const partition of composition.partitions) {
      findings.push(await checkWorkspace(partition));
      findings.push(...(await overlaps(partition)), ...(await checkConnections(partition)));
    }
  } finally {
    await composition.close();
  }
  return findings;
}

function describeConfig({ name, file, connections }: WorkspaceConfig): Finding {
  const message = `${file} is valid: ${connections.length} connection(s)`;
  return { level: 'ok', subject: name, message };
}

async function checkWorkspace({ name, client, config }: Partition): Promise<Finding> {
  const subject = `${name}: workspace`;
  try {
    await client.listTasks({ query: { limit: 1 } }, { lane: 'interactive' });
    return {
      level: 'ok',
      subject,
      message: `${config.workspace.url ?? 'the embedded service'} answers and takes the key`,
    };
  } catch (error) {
    return failed(subject, error);
  }
}

async function checkConnections({ name, connections }: Partition): Promise<Finding[]> {
  const found = await Promise.all(
    connections.map(async ({ name: connection, connection: { check: ask } }) => {
      const subject = `${name}: ${connection}`;
      try {
        return (await ask(AbortSignal.timeout(LONGEST_CHECK))).map((each) => ({
          ...each,
          subject: `${subject}: ${each.subject}`,
        }));
      } catch (error) {
        return [failed(subject, error)];
      }
    }),
  );
  return found.flat();
}

/** Two connections that follow the same unit do the same work twice. */
async function overlaps({ name, connections }: Partition): Promise<Finding[]> {
  const seen = new Map<string, string>();
  const findings: Finding[] = [];
  for (const {
    name: connection,
    connector,
    options,
    connection: { units },
  } of connections) {
    // Where the units cannot be listed the connection's own check says why.
    const listed = await units(AbortSignal.timeout(LONGEST_CHECK)).catch(() => []);
    for (const unit of listed) {
      const key = `${connector.id} ${connector.host(options)} ${unit}`;
      const other = seen.get(key);
      if (other !== undefined) findings.push(overlap(`${name}: ${connection}`, unit, other));
      seen.set(key, connection);
    }
  }
  return findings;
}

function overlap(subject: string, unit: string, other: string): Finding {
  const message = `${unit} is followed by "${other}" too`;
  return { level: 'warning', subject, message, hint: 'Name it in one of the two only.' };
}

function failed(subject: string, error: unknown): Finding {
  const { code, message, hint } = asSyncError(error);
  return { level: 'error', subject, message: `${code}: ${message}`, hint };
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
