import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Finding } from '../../connectors/connector.ts';
import type { SyncError } from '../../model/errors.ts';
import { describeProxies, ownProxies } from '../../platform/config/daemon-options.ts';
import type { Skew } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { sharedFileSystemOf } from '../../platform/lib/folders.ts';
import { refusalOfNotices } from '../../store/items/notices.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { checkHooks, withHost, withoutServer } from '../connections/connections.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import { checkWorkspace, failed } from '../workspace/check-workspace.ts';
import {
  judgeArrivals,
  judgeClock,
  judgeDatabase,
  judgeDisk,
  judgeFileSystem,
  judgeOthers,
  judgeQuota,
  judgeServer,
  judgeVersion,
} from './check-facts.ts';
import type { ServedDaemon } from './whole-status.ts';

const LONGEST_CHECK = 30_000;

/** Checks all workspaces and their providers. Sends up to four requests to each workspace. */
export async function checkAll({ partitions, wrong, clock }: Checked): Promise<Finding[]> {
  const lost = [...wrong].map(([name, error]) => failed(name, error));
  const found = await Promise.all(partitions.map((each) => checkPartition(each, clock)));
  return [...lost, ...found.flat(), ...shared(partitions)];
}

/** Checks everything that `checkAll` checks, and the process, its data folder and its clock. */
export async function checkWhole(checked: Checked & Ground): Promise<Finding[]> {
  const { clock, version, installation, serverClocks } = checked;
  const since = clock.monotonic();
  const folder = installation.asServer ? undefined : dirname(installation.file);
  const size = installation.size();
  const fault = installation.checkFileReplaced() ?? installation.fault();
  const database = judgeDatabase({ file: installation.file, size, fault, keptLog: installation.keptLog() });
  const server = await checkServer(installation);
  return [
    ...(await checkAll(checked)),
    ...judgeClock([...serverClocks.since(since), ...server.skews]),
    database,
    ...server.findings,
    ...(await checkMachine({ version, folder, database: size })),
  ];
}

/** Returns the finding for a replica that did not answer. @param replica its name for people */
export function unchecked(replica: string): Finding {
  return {
    level: 'error',
    subject: 'replicas',
    message: `${replica} did not answer: the workspaces that it works on were not checked`,
    hint: 'See whether it runs, and whether the other replicas reach it at its address ("worksync status" lists them).',
  };
}

/** Returns the findings about the database server and the difference of its clock to ours; nothing for a database in a file. */
async function checkServer({ asServer, file }: Ground['installation']): Promise<{
  readonly findings: readonly Finding[];
  readonly skews: readonly Skew[];
}> {
  if (!asServer) return { findings: [], skews: [] };
  try {
    const facts = await asServer.facts();
    return { findings: judgeServer(file, facts), skews: [{ server: file, ahead: facts.ahead }] };
  } catch (error) {
    return { findings: [failed('postgres', error)], skews: [] };
  }
}

/** Checks everything that works without an open database. */
export async function checkMachine({ version, folder, database = 0 }: Machine): Promise<Finding[]> {
  const disk = folder === undefined ? [] : await checkDisk(folder, database);
  const shared = folder === undefined ? [] : judgeFileSystem(folder, sharedFileSystemOf(folder));
  return [...disk, ...shared, ...judgeProxies(), judgeVersion(version, process.versions.node)];
}

function judgeProxies(): Finding[] {
  const proxies = ownProxies(() => undefined);
  return proxies ? [{ level: 'ok', subject: 'proxy', message: describeProxies(proxies) }] : [];
}

async function checkDisk(folder: string, database: number): Promise<Finding[]> {
  const free = await freeSpace(folder);
  return free === undefined ? [] : [judgeDisk({ folder, free, database })];
}

interface Machine {
  readonly version: string;
  readonly folder?: string | undefined;
  /** Bytes of the database; absent where it is not open. */
  readonly database?: number;
}

async function freeSpace(folder: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return undefined;
  }
}

interface Checked {
  readonly partitions: readonly OpenWorkspace[];
  /** Workspaces that are not open, or whose changed configuration is not taken, and why. */
  readonly wrong: ReadonlyMap<string, SyncError>;
  readonly clock: Clock;
}

type Ground = Pick<ServedDaemon, 'version' | 'installation' | 'serverClocks'>;

/** Reports connections, of one or several workspaces, that share a value of which each needs its own. */
function shared(partitions: readonly OpenWorkspace[]): Finding[] {
  const all = partitions.flatMap((partition) =>
    partition.connections.map(({ name, connector, options }) => ({
      key: connector.exclusive?.(options),
      subject: `${partition.name}: ${name}`,
    })),
  );
  return repeated(all, ({ key, subject }, other) => ({
    level: 'warning',
    subject,
    message: `${key} also serves "${other.subject}": both share one webhook and one limit`,
    hint: 'Use one for each workspace, in one connection.',
  }));
}

/** Returns a finding for each element whose key an earlier element has. `describe` also receives the last such element. */
function repeated<Each extends { readonly key: string | undefined }>(
  all: readonly Each[],
  describe: (each: Each, other: Each) => Finding,
): Finding[] {
  const seen = new Map<string, Each>();
  return all.flatMap((each) => {
    if (each.key === undefined) return [];
    const other = seen.get(each.key);
    seen.set(each.key, each);
    return other === undefined ? [] : [describe(each, other)];
  });
}

async function checkPartition(partition: OpenWorkspace, clock: Clock): Promise<Finding[]> {
  return [
    ...(await checkWorkspace(partition)),
    ...checkQuota(partition, clock),
    ...(await overlaps(partition)),
    ...(await checkConnections(partition)),
    ...(await checkArrivals(partition, clock)),
  ];
}

/** Judges the quota after the request of this check. */
function checkQuota({ name, throttle }: OpenWorkspace, clock: Clock): Finding[] {
  const subject = `${name}: workspace`;
  const snapshot = throttle.snapshot();
  const now = clock.now();
  return [judgeQuota(subject, snapshot, now), ...judgeOthers(subject, snapshot.lastRefusal, now)];
}

async function checkArrivals(partition: OpenWorkspace, clock: Clock): Promise<Finding[]> {
  const { connections } = await partition.status();
  return partition.connections.map(({ name, secrets, schedule }) => {
    const { lastWebhookAt = null, lastRefused = null } = connections.find((each) => each.name === name) ?? {};
    const arrivals = { takesWebhooks: secrets.length > 0, polls: schedule !== 'off', lastWebhookAt, lastRefused };
    return { ...judgeArrivals(arrivals, clock.now()), subject: `${partition.name}: ${name}` };
  });
}

/** A connection with webhooks only works without the provider's API, though less well: a fault of the API is then no error. */
async function checkConnections({ name, connections, config, store }: OpenWorkspace): Promise<Finding[]> {
  const found = await Promise.all(
    connections.map(async (active) => {
      const { name: connection, connection: provider, schedule } = active;
      const subject = `${name}: ${connection}`;
      const message = withoutServer(active.options);
      if (message !== undefined) return [{ level: 'ok' as const, subject, message }];
      const ask = provider.check(AbortSignal.timeout(LONGEST_CHECK));
      const findings = await ask.catch((error: unknown) => [failed('', error)]);
      const host = hostOf(active);
      const softened = findings.map((each) => ({
        ...withHost(each, `https://${host}`),
        level: schedule === 'off' && each.level === 'error' ? ('warning' as const) : each.level,
      }));
      const own = config.connections.find((each) => each.name === connection);
      const names = await checkNames(active);
      const written = [...checkWriteBack(active, own), ...(await checkStatus(store.query, active, own))];
      return [...softened, ...names, ...(await checkHooks(active)), ...written].map((each) => ({
        ...each,
        subject: each.subject === '' ? subject : `${subject}: ${each.subject}`,
      }));
    }),
  );
  return found.flat();
}

function hostOf({ connector, options }: OpenWorkspace['connections'][number]): string {
  const { apiUrl } = options as { readonly apiUrl?: unknown };
  return (typeof apiUrl === 'string' && URL.parse(apiUrl)?.host) || connector.host(options);
}

async function checkNames({ name, names, connection }: OpenWorkspace['connections'][number]): Promise<Finding[]> {
  if (!names) return [];
  names.recheckSoon();
  // The connection's own check reports a rate limit.
  await names.refresh(connection, AbortSignal.timeout(LONGEST_CHECK)).catch(() => undefined);
  const rebound = names.bindings().filter(({ elsewhere }) => elsewhere !== undefined);
  return rebound.map(({ entry, id, elsewhere }) => ({
    level: 'error',
    subject: entry,
    message: `scope_rebound: it leads to ${elsewhere} now, and led to ${id} before; worksync takes nothing from ${elsewhere}`,
    hint: `If you mean the new one, run "worksync connections rebind ${name}"; else correct the name.`,
  }));
}

/** Reports options that are on but cannot work. */
function checkWriteBack(
  { connection, connector }: OpenWorkspace['connections'][number],
  config: OpenWorkspace['config']['connections'][number] | undefined,
): Finding[] {
  const idle: Finding[] = (['comment', 'close', 'status'] as const)
    .filter((kind) => config?.writeBack[kind] && !connection[kind])
    .map((kind) => ({
      level: 'warning',
      subject: '',
      message: `writeBack.${kind} is on, but worksync cannot write that to ${connector.title}`,
      hint: 'Switch it off: it has no effect.',
    }));
  const hasFields = typeof config?.writeBack.close === 'object' && connector.capabilities.closesWithFields !== true;
  if (!hasFields || !connection.close) return idle;
  const message = `writeBack.close.fields has no effect: ${connector.title} takes no fields with a closing`;
  return [...idle, { level: 'warning', subject: '', message, hint: 'Write close: true.' }];
}

/** No vendor reports in advance whether a token may write statuses, so the results of written statuses decide. */
async function checkStatus(
  query: Scope,
  { name, connection }: OpenWorkspace['connections'][number],
  config: OpenWorkspace['config']['connections'][number] | undefined,
): Promise<Finding[]> {
  if (!config?.writeBack.status || !connection.status) return [];
  const { right } = connection.status;
  const refusal = await refusalOfNotices(query, name, 'status');
  if (refusal === undefined) return [{ level: 'ok', subject: '', message: `writeBack.status: needs ${right}` }];
  const hint = `The credential needs ${right}. worksync tries again at its next start.`;
  return [{ level: 'error', subject: '', message: `writeBack.status: ${refusal}`, hint }];
}

/** Two connections that follow the same unit do the same work twice. */
async function overlaps({ name, connections }: OpenWorkspace): Promise<Finding[]> {
  const all = [];
  for (const { name: own, connector, options, connection } of connections) {
    // If the units cannot be listed, the connection's own check reports why.
    const units = await connection.units(AbortSignal.timeout(LONGEST_CHECK)).catch(() => []);
    all.push(...units.map((unit) => ({ own, unit, key: `${connector.id} ${connector.host(options)} ${unit}` })));
  }
  return repeated(all, ({ own, unit }, other) => ({
    level: 'warning',
    subject: `${name}: ${own}`,
    message: `"${other.own}" follows ${unit} too`,
    hint: 'Name it in only one of the two.',
  }));
}
