import { userInfo } from 'node:os';
import type { Status } from '../admin/status/status.ts';
import { asSyncError, SyncError } from '../model/errors.ts';
import type { DaemonOptions, Flags } from '../platform/config/daemon-options.ts';
import { sleep, systemClock } from '../platform/lib/clock.ts';
import { shellWord } from '../platform/lib/own-program.ts';
import { type DaemonEndpoint, findDaemon } from '../store/installation/daemon-file.ts';
import type { Installation } from '../store/installation/installation.ts';
import { type Failure, REFUSED } from '../web/admin-answers.ts';
import { say, withWaitNotice } from './command.ts';
import { differingBuilds, noteBuild, noteForwardedVersion } from './report-error.ts';
import { span } from './words.ts';

const clock = systemClock();

/** Milliseconds within which the daemon answers from its own database. */
const ANSWER = 30_000;
/** Milliseconds within which a live process answers. */
const SIGN_OF_LIFE = 5_000;

/** Returns the name of the user of this process, for people; its number if the system knows no name. */
function osUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/** The author for the audit of a command that works on the data folder itself. */
export const whoRuns = () => ({ actor: `command ${osUser()}`, clock });

/** Whether a daemon that owns the data folder answers. Throws `unauthorized` if this user has no access to it. */
export async function hasOwner(dataFolder: string): Promise<boolean> {
  try {
    await findLiving(dataFolder);
    return true;
  } catch (error) {
    if (asSyncError(error).code === 'unauthorized') throw error;
    return false;
  }
}

/** Throws `not_running` if no daemon answers, and the error of a wrong or late answer. */
export async function findLiving(dataFolder: string): Promise<void> {
  const { signOfLife } = await import('../platform/http/daemon-client.ts');
  const owner = ownerOf(dataFolder);
  const look = () => signOfLife(`${owner.address}/livez`, SIGN_OF_LIFE);
  const status = await answered(dataFolder, owner, SIGN_OF_LIFE, look);
  if (status !== 200) throw wrongAnswer(owner, status);
}

/**
 * Sends a request to the daemon that owns the data folder. Throws `not_running` if none answers, `not_answering` if it takes
 * longer than `patience`.
 *
 * @param patience milliseconds
 * @param silence milliseconds after which the command reports that it waits
 */
export async function askOwner<Answer>(
  dataFolder: string,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
  patience = ANSWER,
  silence?: number,
): Promise<Answer> {
  const { askDaemon } = await import('../platform/http/daemon-client.ts');
  const owner = ownerOf(dataFolder);
  const asked = { method, url: `${owner.address}${path}`, token: owner.token, user: osUser(), body, patience };
  const answer = await answered(dataFolder, owner, patience, () => askDaemon(asked), silence);
  if (answer.version !== undefined) noteForwardedVersion(answer.version);
  if (answer.status === 200) return read<Answer>(owner, answer.body);
  if (answer.status === REFUSED || answer.status === 400) throw refusal(read<Failure>(owner, answer.body));
  throw wrongAnswer(owner, answer.status);
}

/** Returns the data folder and the store of a command, as its flags, the environment and `.env` name them. */
export async function placeOf(flags: Flags): Promise<DaemonOptions> {
  const { daemonOptions } = await import('../platform/config/daemon-options.ts');
  const { commandEnvironment } = await import('../platform/config/config-files.ts');
  return daemonOptions(flags, commandEnvironment(flags).settings);
}

/** Requests something of the whole installation with POST; if no daemon runs, this process does the work on the database itself. */
export async function askInstallation<Answer>(
  flags: Flags,
  path: string,
  body: object | undefined,
  work: (installation: Installation) => Promise<Answer>,
): Promise<Answer> {
  const place = await placeOf(flags);
  return askOwnerOr(place.data, path, body, async () =>
    (await import('../admin/installation/data.ts')).alone(place, work),
  );
}

/** As `askOwner` with POST; if no daemon runs, this process does the work itself. */
export async function askOwnerOr<Answer>(
  dataFolder: string,
  path: string,
  body: object | undefined,
  alone: () => Promise<Answer>,
  patience?: number,
): Promise<Answer> {
  return (await hasOwner(dataFolder)) ? askOwner(dataFolder, 'POST', path, body, patience) : alone();
}

/** Requests the status from the daemon that owns the data folder. The daemon may be of another version. */
export async function askStatus(dataFolder: string): Promise<Status> {
  const { completeStatus } = await import('../admin/status/status.ts');
  return completeStatus(await askOwner<Partial<Status>>(dataFolder, 'GET', '/status.json'));
}

/** Returns the webhook address of the daemon that owns the data folder. Throws `not_running` if none answers. */
export async function webhookAddressOf(dataFolder: string): Promise<string> {
  await findLiving(dataFolder);
  const { address, webhooks = address } = ownerOf(dataFolder);
  return webhooks;
}

function read<Content>({ address }: DaemonEndpoint, body: Buffer): Content {
  try {
    return JSON.parse(body.toString()) as Content;
  } catch (error) {
    const builds = differingBuilds();
    throw new SyncError('answer_malformed', `the answer of ${address} is not JSON${builds ? `: ${builds}` : ''}`, {
      cause: error,
      hint: 'See whether another program listens at this address.',
    });
  }
}

function ownerOf(dataFolder: string): DaemonEndpoint {
  const owner = findDaemon(dataFolder);
  if (!owner) throw notRunning(dataFolder);
  noteBuild(owner.build);
  return owner;
}

async function answered<Answer>(
  dataFolder: string,
  owner: DaemonEndpoint,
  patience: number,
  ask: () => Promise<Answer>,
  silence?: number,
): Promise<Answer> {
  try {
    return await withWaitNotice('the daemon', patience, ask, silence);
  } catch (error) {
    const { code } = asSyncError(error);
    if (code === 'unreachable') throw notRunning(dataFolder, owner.config);
    throw code === 'not_answering' ? notAnswering(owner, patience) : error;
  }
}

function wrongAnswer({ address }: DaemonEndpoint, status: number): SyncError {
  if (status === 404) {
    const builds = differingBuilds();
    const message = `the daemon at ${address} has no such workspace${builds ? `, or no such command: ${builds}` : ''}`;
    return new SyncError('not_found', message, {
      hint: 'Give the --config and --workspace of the daemon; "worksync status" names its workspaces.',
    });
  }
  const code = status === 401 || status === 403 ? 'unauthorized' : 'server_failed';
  return new SyncError(code, `the daemon at ${address} answered ${status}`);
}

function notAnswering({ address }: DaemonEndpoint, patience: number): SyncError {
  return new SyncError('not_answering', `the daemon at ${address} did not answer within ${span(patience)}`);
}

/** Converts a failure of the daemon into an error of the command. */
export function refusal({ failure: { code, message, ...details } }: Failure): SyncError {
  return new SyncError(code, message, details);
}

/** @param config the configuration of a killed daemon, if there was one: without it, the next one would have other workspaces */
function notRunning(dataFolder: string, config?: string): SyncError {
  const hint = config && `Start the daemon first: "worksync run --config ${shellWord(config)}".`;
  return new SyncError('not_running', `no daemon answers for the data folder "${dataFolder}"`, { hint });
}

/** Polls the daemon until a signal ends the process. It continues while the daemon does not answer. */
export async function pollEvery(every: number, poll: () => Promise<void>): Promise<never> {
  const clock = systemClock();
  let lost = '';
  for (;;) {
    try {
      await poll();
      lost = '';
    } catch (thrown) {
      const { code, message } = asSyncError(thrown);
      if (code === 'unauthorized') throw thrown;
      if (message !== lost) say(`worksync: ${message}`);
      lost = message;
    }
    await sleep(clock, every);
  }
}
