import { SyncError } from '../../model/errors.ts';
import type { Cancel, Clock } from '../../platform/lib/clock.ts';

/** Milliseconds within which a person can undo a request. */
export const DELAY = 10_000;
const MOST = 100;

/** The admin operations that can be postponed; see `admin/admin-operations.ts`. */
export const POSTPONABLE = ['release', 'retry', 'dismiss', 'changes-retry', 'changes-drop'] as const;

export interface PostponedRequest {
  readonly question: (typeof POSTPONABLE)[number];
  readonly asked: object;
}

/** An action that waits. Times are epoch milliseconds. */
export interface PostponedAction extends PostponedRequest {
  /** For `undo`. */
  readonly id: string;
  /** Number of things that it concerned when it was requested; the things that exist in the end are changed. */
  readonly count: number;
  readonly actor: string;
  readonly auditRow: number;
  readonly askedAt: number;
  /** The time at which it runs, and milliseconds until then. */
  readonly at: number;
  readonly remaining: number;
}

type NewAction = Omit<PostponedAction, 'id' | 'askedAt' | 'at' | 'remaining'>;
type Waiting = Omit<PostponedAction, 'remaining'> & { readonly due: number; readonly cancel: Cancel };

export type Postponed = ReturnType<typeof createPostponed>;

/**
 * Actions of one workspace that run ten seconds after their request, unless somebody undoes them. They are in memory only: a
 * daemon that ends before leaves everything unchanged.
 */
export function createPostponed(clock: Clock) {
  const waiting = new Map<string, Waiting>();
  const running = new Set<Promise<unknown>>();
  let isOpen = false;
  let lastId = 0;

  const shown = ({ cancel: _cancel, due, ...action }: Waiting): PostponedAction => ({
    ...action,
    remaining: Math.max(0, Math.round(due - clock.monotonic())),
  });

  return {
    start() {
      isOpen = true;
    },
    /** Throws `not_running` if no daemon would run it, `conflict` if too many wait. */
    add(action: NewAction, run: () => Promise<unknown>): PostponedAction {
      if (!isOpen) throw new SyncError('not_running', 'nothing can be postponed: no daemon runs that would do it');
      if (waiting.size >= MOST) throw new SyncError('conflict', `${MOST} actions wait already`);
      lastId++;
      const id = String(lastId);
      const cancel = clock.after(DELAY, () => {
        waiting.delete(id);
        // The audit has the result.
        const done = run().catch(() => undefined);
        running.add(done);
        void done.finally(() => running.delete(done));
      });
      const times = { askedAt: clock.now(), at: clock.now() + DELAY, due: clock.monotonic() + DELAY };
      const next = { id, ...action, ...times, cancel };
      waiting.set(id, next);
      return shown(next);
    },
    /** Lists the waiting actions, the next one first. */
    list: () => [...waiting.values()].map(shown),
    /** Removes an action; undefined if it is already done or undone. */
    take(id: string): PostponedAction | undefined {
      const found = waiting.get(id);
      if (!found) return undefined;
      found.cancel();
      waiting.delete(id);
      return shown(found);
    },
    /** Discards all waiting actions; resolves when the running ones have ended. */
    async stop() {
      isOpen = false;
      for (const { cancel } of waiting.values()) cancel();
      waiting.clear();
      await Promise.all(running);
    },
  };
}
