import type { Cancel, Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Stage } from '../platform/lib/stage.ts';
import { createTransitionLogger } from '../platform/lib/transition-logger.ts';
import { pendingWorkspaces } from '../store/inbox.ts';
import type { Installation } from '../store/installation.ts';
import { serverOf } from './open-store.ts';

/** Bells between processes: whoever stores a delivery tells the owner of its workspace. */
export interface Notifications extends Stage {
  tell(workspace: string): void;
  /** A gateway token was made or revoked here. Never rejects: who was not told reads them all once a minute. */
  tellTokens(): Promise<void>;
}

interface BellsDeps {
  readonly installation: Installation;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Wakes what works on a workspace, where this process owns it. */
  readonly wake: (workspace: string) => void;
  /** Another process made or revoked a gateway token, or may have. */
  readonly rereadTokens: () => Promise<void>;
}

/** A signal takes a lock of the whole server: so many deliveries share one, milliseconds. */
const TOLD_EVERY = 50;
/** A signal may be lost: how often the owner looks for itself, milliseconds. */
const LOOK_EVERY = 1_000;
/** A process may end before it tells that it revoked a token, milliseconds. */
const TOKENS_READ_EVERY = 60_000;
/** The server takes 8 000 bytes. */
const LONGEST_SIGNAL = 7_000;
/** In place of names that are too many. */
const ALL = '*';
const TOKENS = 'tokens';

export function createNotifications(deps: BellsDeps): Notifications {
  const { installation, clock, logger, wake } = deps;
  const server = serverOf(installation);
  // Channels are the whole database's, whatever its schemas.
  const channel = `worksync_${installation.id}`;
  const teller = createTransitionLogger(logger, 'warn', {
    failed: 'gateway tokens could not be read',
    again: 'gateway tokens are read again',
  });
  const untold = new Set<string>();
  /** Set while deliveries wait to be told of. */
  let cancelTelling: Cancel | undefined;
  let cancel: Cancel = () => undefined;
  let stopListening: (() => Promise<void>) | undefined;
  let isStopped = false;
  /** By the monotonic clock. */
  let tokensReadAt = Number.NEGATIVE_INFINITY;

  async function tellAll(): Promise<void> {
    const text = JSON.stringify([...untold]);
    untold.clear();
    cancelTelling = undefined;
    await send(Buffer.byteLength(text) > LONGEST_SIGNAL ? ALL : text);
  }

  /** Whoever hears nothing looks for itself. */
  async function send(signal: string): Promise<void> {
    try {
      await server.notify(channel, signal);
    } catch (error) {
      logger.debug({ error }, 'other processes could not be told of a change');
    }
  }

  function hear(payload: string): void {
    if (payload === ALL) void look();
    else if (payload === TOKENS) void reread();
    else for (const workspace of JSON.parse(payload) as readonly string[]) wake(workspace);
  }

  /** What could not be read is read again with the next look: a token that was revoked elsewhere would be taken here. */
  async function reread(): Promise<void> {
    const began = clock.monotonic();
    try {
      await deps.rereadTokens();
      tokensReadAt = began;
      teller.succeeded();
    } catch (error) {
      tokensReadAt = Number.NEGATIVE_INFINITY;
      teller.failed(error);
    }
  }

  async function look(): Promise<void> {
    if (clock.monotonic() - tokensReadAt >= TOKENS_READ_EVERY) await reread();
    try {
      for (const workspace of await pendingWorkspaces(installation.query)) wake(workspace);
    } catch (error) {
      logger.debug({ error }, 'the database could not be asked for deliveries that came elsewhere');
    }
  }

  function lookLater(): void {
    if (!isStopped) cancel = clock.after(LOOK_EVERY, () => void look().finally(lookLater));
  }

  return {
    tell(workspace) {
      untold.add(workspace);
      cancelTelling ??= clock.after(TOLD_EVERY, () => void tellAll());
    },
    tellTokens: () => send(TOKENS),
    start() {
      lookLater();
      const missed = () => void Promise.all([reread(), look()]);
      void server.listen(channel, hear, missed).then((stop) => {
        stopListening = stop;
      });
    },
    async stop() {
      isStopped = true;
      cancel();
      cancelTelling?.();
      if (untold.size > 0) await tellAll();
      await stopListening?.();
    },
  };
}
