import type { Status } from '../admin/status.ts';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import { systemClock } from '../platform/lib/clock.ts';
import { osUser } from '../platform/lib/os-user.ts';
import { shellWord } from '../platform/lib/own-command.ts';
import { type DaemonEndpoint, findDaemon } from '../store/daemon-file.ts';
import { type Failure, REFUSED } from '../web/admin-answers.ts';
import { differingBuilds, noteBuild, noteForwardedVersion } from './builds.ts';
import { audibly } from './patience.ts';
import { span } from './words.ts';

const clock = systemClock();

/** What the daemon answers from its own database it answers within this, milliseconds. */
const ANSWER = 30_000;
/** What lives answers at once, milliseconds. */
const SIGN_OF_LIFE = 5_000;

/** Who runs this command, for the audit, where it works on the data folder itself. */
export const whoRuns = () => ({ actor: `command ${osUser()}`, clock });

/** Whether a daemon that owns the data folder answers. Throws `unauthorized` where this user may not ask it. */
export async function hasOwner(dataFolder: string): Promise<boolean> {
  try {
    await findLiving(dataFolder);
    return true;
  } catch (error) {
    if (asSyncError(error).code === 'unauthorized') throw error;
    return false;
  }
}

/** Throws `not_running` where no daemon answers, the error where it answers wrongly or too late. */
export async function findLiving(dataFolder: string): Promise<void> {
  const { signOfLife } = await import('../platform/http/sign-of-life.ts');
  const owner = ownerOf(dataFolder);
  const status = await audibly('the daemon', SIGN_OF_LIFE, () =>
    answered(dataFolder, owner, SIGN_OF_LIFE, () => signOfLife(`${owner.address}/livez`, SIGN_OF_LIFE)),
  );
  if (status !== 200) throw wrongAnswer(owner, status);
}

/**
 * Asks the daemon that owns the data folder. Throws `not_running` where none answers, `not_answering` where it takes
 * longer than `patience`.
 *
 * @param patience milliseconds
 * @param silence milliseconds of it after which it is said that the command waits
 */
export async function askOwner<Answer>(
  dataFolder: string,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
  patience = ANSWER,
  silence?: number,
): Promise<Answer> {
  return audibly('the daemon', patience, () => ask<Answer>(dataFolder, method, path, body, patience), silence);
}

/** Asks the daemon that owns the data folder for its status. The daemon may be of another version. */
export async function askStatus(dataFolder: string): Promise<Status> {
  const { completeStatus } = await import('../admin/complete-status.ts');
  return completeStatus(await askOwner<Partial<Status>>(dataFolder, 'GET', '/status.json'));
}

/** Where the daemon that owns the data folder takes webhooks. Throws `not_running` where none answers. */
export async function webhookAddressOf(dataFolder: string): Promise<string> {
  await findLiving(dataFolder);
  const { address, webhooks = address } = ownerOf(dataFolder);
  return webhooks;
}

async function ask<Answer>(
  dataFolder: string,
  method: 'GET' | 'POST',
  path: string,
  body: unknown,
  patience: number,
): Promise<Answer> {
  const { askDaemon } = await import('../platform/http/ask-daemon.ts');
  const owner = ownerOf(dataFolder);
  const asked = { method, url: `${owner.address}${path}`, token: owner.token, user: osUser(), body, patience };
  const answer = await answered(dataFolder, owner, patience, () => askDaemon(asked));
  if (answer.version !== undefined) noteForwardedVersion(answer.version);
  if (answer.status === 200) return read<Answer>(owner, answer.body);
  if (answer.status === REFUSED || answer.status === 400) throw refusal(read<Failure>(owner, answer.body));
  throw wrongAnswer(owner, answer.status);
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
): Promise<Answer> {
  try {
    return await ask();
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

/** A failure in the daemon, as if it were the command's own. */
export function refusal({ failure: { code, message, ...details } }: Failure): SyncError {
  return new SyncError(code, message, details);
}

/** @param config of the daemon that was killed, if one was: started without it, the next one would have other workspaces */
function notRunning(dataFolder: string, config?: string): SyncError {
  const hint = config && `Start the daemon first: "worksync run --config ${shellWord(config)}".`;
  return new SyncError('not_running', `no daemon answers for the data folder "${dataFolder}"`, { hint });
}
