import type { Finding } from '../connectors/connector.ts';
import { asSyncError, type SyncError } from '../errors/sync-error.ts';
import { checkHooks } from './hooks.ts';
import type { OpenWorkspace } from './open-workspace.ts';

/** Milliseconds that the quota may keep the workspace from being asked. */
const LONGEST_WAIT = 10_000;
/** Milliseconds that a provider may take. */
const LONGEST_CHECK = 30_000;

/** All workspaces and their providers, each with its remedy. Costs one request of each workspace's quota. */
export async function checkAll({ partitions, wrong }: Checked): Promise<Finding[]> {
  const lost = [...wrong].map(([name, error]) => failed(name, error));
  return [...lost, ...(await Promise.all(partitions.map(checkPartition))).flat(), ...shared(partitions)];
}

interface Checked {
  readonly partitions: readonly OpenWorkspace[];
  /** Workspaces that are not open, or whose changed configuration is not taken, and why. */
  readonly wrong: ReadonlyMap<string, SyncError>;
}

/** Connections, of one workspace or of several, that have what only one should have. */
function shared(partitions: readonly OpenWorkspace[]): Finding[] {
  const seen = new Map<string, string>();
  const findings: Finding[] = [];
  for (const partition of partitions)
    for (const { name, connector, options } of partition.connections) {
      const exclusive = connector.exclusive?.(options);
      if (exclusive === undefined) continue;
      const subject = `${partition.name}: ${name}`;
      const other = seen.get(exclusive);
      if (other !== undefined) findings.push(sharing(subject, exclusive, other));
      seen.set(exclusive, subject);
    }
  return findings;
}

function sharing(subject: string, what: string, other: string): Finding {
  const message = `${what} also serves "${other}": both share one webhook and one limit`;
  return {
    level: 'warning',
    subject,
    message,
    hint: 'Use one for each workspace, in one connection.',
  };
}

async function checkPartition(partition: OpenWorkspace): Promise<Finding[]> {
  return [await checkWorkspace(partition), ...(await overlaps(partition)), ...(await checkConnections(partition))];
}

async function checkWorkspace({ name, client, config }: OpenWorkspace): Promise<Finding> {
  const subject = `${name}: workspace`;
  try {
    await client.listTasks({ query: { limit: 1 } }, { lane: 'interactive', patience: LONGEST_WAIT });
    return {
      level: 'ok',
      subject,
      message: `${config.workspace.url ?? 'the embedded service'} answers and accepts the key`,
    };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'rate_limited') return failed(subject, error);
    return { level: 'warning', subject, message: `could not be checked: ${error.message}`, hint: error.hint };
  }
}

/** A connection that only takes webhooks works without the provider's API, if less well: then nothing there is an error. */
async function checkConnections({ name, connections, config }: OpenWorkspace): Promise<Finding[]> {
  const found = await Promise.all(
    connections.map(async (active) => {
      const { name: connection, connection: provider, schedule } = active;
      const subject = `${name}: ${connection}`;
      const ask = provider.check(AbortSignal.timeout(LONGEST_CHECK));
      const findings = await ask.catch((error: unknown) => [failed('', error)]);
      const softened = findings.map((each) => ({
        ...each,
        level: schedule === 'off' && each.level === 'error' ? ('warning' as const) : each.level,
      }));
      const own = config.connections.find((each) => each.name === connection);
      const names = await checkNames(active);
      return [...softened, ...names, ...(await checkHooks(active)), ...checkWriteBack(active, own)].map((each) => ({
        ...each,
        subject: each.subject === '' ? subject : `${subject}: ${each.subject}`,
      }));
    }),
  );
  return found.flat();
}

/** Names that lead to something else than before. */
async function checkNames({ name, names, connection }: OpenWorkspace['connections'][number]): Promise<Finding[]> {
  if (!names) return [];
  names.doubt();
  await names.refresh(connection, AbortSignal.timeout(LONGEST_CHECK));
  const rebound = names.bindings().filter(({ elsewhere }) => elsewhere !== undefined);
  return rebound.map(({ entry, id, elsewhere }) => ({
    level: 'error',
    subject: entry,
    message: `scope_rebound: it leads to ${elsewhere} now, and led to ${id} before; worksync takes nothing from ${elsewhere}`,
    hint: `If you mean the new one, run "worksync connections rebind ${name}"; else correct the name.`,
  }));
}

/** Options that are switched on but cannot work. */
function checkWriteBack(
  { connection, connector }: OpenWorkspace['connections'][number],
  config: OpenWorkspace['config']['connections'][number] | undefined,
): Finding[] {
  return (['comment', 'close'] as const)
    .filter((kind) => config?.writeBack[kind] && !connection[kind])
    .map((kind) => ({
      level: 'warning',
      subject: '',
      message: `writeBack.${kind} is on, but worksync cannot write that to ${connector.title}`,
      hint: 'Switch it off: it has no effect.',
    }));
}

/** Two connections that follow the same unit do the same work twice. */
async function overlaps({ name, connections }: OpenWorkspace): Promise<Finding[]> {
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
  const message = `"${other}" follows ${unit} too`;
  return { level: 'warning', subject, message, hint: 'Name it in only one of the two.' };
}

function failed(subject: string, error: unknown): Finding {
  const { code, message, hint } = asSyncError(error);
  return { level: 'error', subject, message: `${code}: ${message}`, hint };
}
