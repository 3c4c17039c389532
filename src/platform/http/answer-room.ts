import { SyncError } from '../../model/errors/sync-error.ts';
import type { BodyHolder, MemoryBudget } from './memory-budget.ts';

/** The share of an answer that passes through this process in the budget of its server, from its first byte until it was given on. */
export interface AnswerRoom {
  /** @param bytes the length that the answer announces; 0 where it announces none */
  announce(bytes: number): void;
  /** Asks for room for bytes that came in. Undefined where there is some; else resolves when there is. Throws `over_budget`. */
  take(bytes: number): Promise<void> | undefined;
  /** Gives everything back. Idempotent. */
  leave(): void;
}

/** So much of an answer needs no room: the number of requests that are out is small. */
const FREE = 256 * 1024;

/**
 * Bodies that come in and answers that go out share one budget.
 *
 * @param largest bytes that an answer has at most
 */
export function createAnswerRoom(budget: MemoryBudget, group: string, largest: number): AnswerRoom {
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => undefined);
  let announced = largest;
  let size = 0;
  let holder: BodyHolder | undefined;
  let hasLeft = false;
  const giveUp = () => {
    ended.reject(new SyncError('over_budget', 'too many large answers are on their way', { hint: LATER }));
  };
  return {
    announce(bytes) {
      if (bytes > 0) announced = bytes;
    },
    take(bytes) {
      size += bytes;
      if (size <= FREE || hasLeft) return undefined;
      const wanted = holder === undefined ? size : bytes;
      holder ??= budget.enter(group, announced, giveUp);
      const room = holder.take(wanted);
      if (size === announced) holder.complete();
      return room && Promise.race([room, ended.promise]);
    },
    leave() {
      hasLeft = true;
      holder?.leave();
    },
  };
}

const LATER = 'Repeat the request when fewer large answers are on their way.';
