import type { Server } from 'node:http';
import { type Clock, systemClock } from '../lib/clock.ts';
import { groupOfAddress } from './address-group.ts';
import { createAddressGuard } from './address-guard.ts';
import { createFairQueue } from './fair-queue.ts';
import { createMemoryBudget, type MemoryBudget } from './memory-budget.ts';
import { type Connections, limitConnections } from './open-connections.ts';

/**
 * The limits of all requests of one server together, and the order of the requests above them. Nothing here refuses a request
 * while there is room and time for it: senders of one vendor share addresses, and behind a proxy everybody does.
 */
export interface Traffic {
  readonly bodies: MemoryBudget;
  readonly connections: Connections;
  /** Whether this address recently sent many requests that had to be refused. */
  isSuspect(address: string): boolean;
  /** Records that a request of this address was refused for its content. */
  failed(address: string): void;
  /** Waits for the turn of a request whose body has arrived. Undefined: now. Rejects with a `RequestError`. */
  turn(address: string, bytes: number): Promise<void> | undefined;
}

/** Refused requests after which other addresses go first, and refusals that are forgiven each second. */
const PATIENCE = { burst: 60, perSecond: 1 };

export interface TrafficLimits {
  /** Bytes of all bodies at a time; 64 MiB by default. */
  readonly bytes?: number;
  /** Open connections; 2 000 by default. */
  readonly connections?: number;
  /** Real time by default, because network time is real time. */
  readonly clock?: Clock;
}

export function createTraffic(server: Server, limits: TrafficLimits = {}): Traffic {
  const { clock = systemClock() } = limits;
  const guard = createAddressGuard(clock, PATIENCE);
  const isSuspect = (group: string) => !guard.admits(group);
  const turns = createFairQueue(isSuspect);
  return {
    bodies: createMemoryBudget({ clock, isSuspect, total: limits.bytes }),
    connections: limitConnections(server, limits.connections),
    isSuspect: (address) => isSuspect(groupOfAddress(address)),
    failed: (address) => guard.failed(groupOfAddress(address)),
    turn: (address, bytes) => turns.enter(groupOfAddress(address), bytes),
  };
}
