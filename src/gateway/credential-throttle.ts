import { createAddressGuard, type Patience } from '../platform/http/address-guard.ts';
import type { Clock } from '../platform/lib/clock.ts';

/**
 * Credentials that the workspace has not accepted lately, by the address they come from: each costs a slot of the
 * quota to try, so an address may get few of them wrong, and has few tried at a time.
 */
export interface CredentialThrottle {
  /** Waits for a place; `leave` must follow. False where this address got too many wrong: then nothing is tried. */
  enter(address: string): Promise<boolean>;
  /** @param isWrong the workspace did not know the credential */
  leave(address: string, isWrong: boolean): void;
}

/** Wrong credentials that one address may try, and how soon it may try another. */
const PATIENCE: Patience = { burst: 5, perSecond: 1 / 60 };

interface Room {
  inside: number;
  readonly waiting: (() => void)[];
}

export function createCredentialThrottle(clock: Clock): CredentialThrottle {
  const guard = createAddressGuard(clock, PATIENCE);
  const rooms = new Map<string, Room>();
  const roomOf = (address: string) => {
    const room = rooms.get(address) ?? { inside: 0, waiting: [] };
    rooms.set(address, room);
    return room;
  };
  const callNext = (address: string, room: Room) => {
    room.waiting.shift()?.();
    if (room.inside === 0 && room.waiting.length === 0) rooms.delete(address);
  };
  return {
    async enter(address) {
      const room = roomOf(address);
      // Each of those inside may turn out to be wrong.
      while (guard.admits(address) && room.inside >= guard.left(address)) {
        await new Promise<void>((admit) => room.waiting.push(admit));
      }
      if (guard.admits(address)) {
        rooms.set(address, room);
        room.inside++;
        return true;
      }
      // Then nobody else has a reason to wait either.
      callNext(address, room);
      return false;
    },
    leave(address, isWrong) {
      const room = roomOf(address);
      if (isWrong) guard.failed(address);
      room.inside--;
      callNext(address, room);
    },
  };
}
