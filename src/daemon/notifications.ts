// Design: src/decisions/replicas.md

import type { Cancel } from '../platform/lib/clock.ts';
import { createTransitionLogger } from '../platform/lib/telemetry.ts';
import { pendingWorkspaces } from '../store/deliveries/inbox.ts';
import type { DaemonContext } from './daemon-context.ts';
import { serverOf } from './open-store.ts';

/** Wake signals between processes over one database: LISTEN and NOTIFY of PostgreSQL. */
export type Notifications = ReturnType<typeof createNotifications>;

/** Time for which notifications are collected, milliseconds, because each locks the whole server for a moment. */
const NOTIFY_EVERY = 50;
/** Time between two reads of the inbox, milliseconds, because a notification may be lost. */
const POLL_EVERY = 1_000;
/** Time between two reads of all tokens, milliseconds, because a process may end between a revocation and its notification. */
const TOKENS_READ_EVERY = 60_000;
/** Largest payload, bytes: PostgreSQL accepts 8000. */
const LARGEST_PAYLOAD = 7_000;
/** Payload that stands for all workspaces, if their names do not fit. */
const ALL = '*';
const TOKENS = 'tokens';

/** @param wake wakes the stages of a workspace if this process owns it */
export function createNotifications(daemon: DaemonContext, wake: (workspace: string) => void) {
  const { installation, clock, logger, tokenBook } = daemon;
  const server = serverOf(installation);
  // A channel belongs to the whole database, whatever the schema: so it needs the id of the installation.
  const channel = `worksync_${installation.id}`;
  const tokenReads = createTransitionLogger(logger, 'warn', {
    failed: 'gateway tokens could not be read',
    again: 'gateway tokens are read again',
  });
  /** Workspaces whose owners are notified next. */
  const pending = new Set<string>();
  let cancelNotify: Cancel | undefined;
  let cancelPoll: Cancel = () => undefined;
  let stopListening: (() => Promise<void>) | undefined;
  let isStopped = false;
  /** By the monotonic clock. */
  let tokensReadAt = Number.NEGATIVE_INFINITY;

  async function notifyPending(): Promise<void> {
    const payload = JSON.stringify([...pending]);
    pending.clear();
    cancelNotify = undefined;
    await send(Buffer.byteLength(payload) > LARGEST_PAYLOAD ? ALL : payload);
  }

  /** Never rejects. A process that misses the notification reads the inbox and the tokens at intervals. */
  async function send(payload: string): Promise<void> {
    try {
      await server.notify(channel, payload);
    } catch (error) {
      logger.debug({ error }, 'other processes could not be notified of a change');
    }
  }

  function receive(payload: string): void {
    if (payload === ALL) void poll();
    else if (payload === TOKENS) void readTokens();
    else for (const workspace of JSON.parse(payload) as readonly string[]) wake(workspace);
  }

  /** A failed read is repeated with the next poll, because a token that was revoked elsewhere would stay valid here. */
  async function readTokens(): Promise<void> {
    const startedAt = clock.monotonic();
    try {
      await tokenBook.reread();
      tokensReadAt = startedAt;
      tokenReads.succeeded();
    } catch (error) {
      tokensReadAt = Number.NEGATIVE_INFINITY;
      tokenReads.failed(error);
    }
  }

  async function poll(): Promise<void> {
    if (clock.monotonic() - tokensReadAt >= TOKENS_READ_EVERY) await readTokens();
    try {
      for (const workspace of await pendingWorkspaces(installation.query)) wake(workspace);
    } catch (error) {
      logger.debug({ error }, 'the database could not be read for deliveries that other processes stored');
    }
  }

  function schedulePoll(): void {
    if (!isStopped) cancelPoll = clock.after(POLL_EVERY, () => void poll().finally(schedulePoll));
  }

  return {
    /** Notifies the owner of the workspace of a new delivery. */
    notifyOwner(workspace: string) {
      pending.add(workspace);
      cancelNotify ??= clock.after(NOTIFY_EVERY, () => void notifyPending());
    },
    /** Notifies all processes that a gateway token was created or revoked. Never rejects: see `TOKENS_READ_EVERY`. */
    notifyTokenChange: () => send(TOKENS),
    start() {
      schedulePoll();
      const onMissed = () => void Promise.all([readTokens(), poll()]);
      void server.listen(channel, receive, onMissed).then((stop) => {
        stopListening = stop;
      });
    },
    async stop() {
      isStopped = true;
      cancelPoll();
      cancelNotify?.();
      if (pending.size > 0) await notifyPending();
      await stopListening?.();
    },
  };
}
