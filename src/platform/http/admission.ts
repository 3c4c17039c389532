import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { SyncError } from '../../model/errors.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { yieldToEventLoop } from '../lib/concurrency.ts';
import { createAddressGuard, groupOfAddress } from './addresses.ts';

/**
 * The limits of all requests of one server together: memory for bodies, turns for the check of signatures, connections. Nothing
 * is refused while there is room and time for it, because senders of one vendor share addresses, and all do behind a proxy.
 */
export interface Traffic {
  readonly bodies: MemoryBudget;
  /** Records that the request on this connection is complete: its sender now waits for the answer. */
  arrived(socket: Socket): void;
  /** Whether this address recently sent many requests that had to be refused. */
  isSuspect(address: string): boolean;
  /** Records that a request of this address was refused for its content. */
  failed(address: string): void;
  /** Waits for the turn of a request whose body has arrived. Undefined: now. Rejects with a `RequestError`. */
  turn(address: string, bytes: number): Promise<void> | undefined;
}

export interface TrafficLimits {
  /** Bytes of all bodies at a time; 64 MiB by default. */
  readonly bytes?: number;
  /** Open connections; 2 000 by default. */
  readonly connections?: number;
  /** Real time by default, because network time is real time. */
  readonly clock?: Clock;
}

/** Refused requests after which other addresses go first, and refusals that are forgiven each second. */
const REFUSALS = { burst: 60, perSecond: 1 };

export function createTraffic(server: Server, limits: TrafficLimits = {}): Traffic {
  const { clock = systemClock() } = limits;
  const guard = createAddressGuard(clock, REFUSALS);
  const isSuspect = (group: string) => !guard.admits(group);
  const turns = new FairQueue(isSuspect);
  return {
    bodies: new MemoryBudget(clock, isSuspect, limits.bytes),
    arrived: limitConnections(server, limits.connections),
    isSuspect: (address) => isSuspect(groupOfAddress(address)),
    failed: (address) => guard.failed(groupOfAddress(address)),
    turn: (address, bytes) => turns.enter(groupOfAddress(address), bytes),
  };
}

/** A request that is refused before it reaches its handler. The connection ends with the answer. */
export class RequestError extends Error {
  readonly statusCode: number;

  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

/** There was no room or no time for the request: the sender should repeat it. */
export function crowdedOut(isSuspect: boolean): RequestError {
  return new RequestError(isSuspect ? 429 : 503, 'too many deliveries are coming in');
}

/** A request whose body is arriving. */
interface Holder {
  readonly group: string;
  /** Bytes that its body will have, or the largest number that is accepted. */
  readonly announced: number;
  /** Its index among the holders; -1 after it has left. */
  index: number;
  /** Cleared when it leaves: V8 may keep the holder in an outgrown table of a set, and with it the whole request. */
  giveUp: ((isSuspect: boolean) => void) | undefined;
  readonly since: number;
  held: number;
  isComplete: boolean;
  /** When it last had brought `PROGRESS` bytes more, and how many bytes it had then. */
  movedAt: number;
  movedWith: number;
  waiting?: { readonly bytes: number; readonly since: number; readonly resolve: () => void } | undefined;
}

export interface BodyHolder {
  /** Requests room for received bytes. Returns undefined if there is some; otherwise resolves when there is. */
  take(bytes: number): Promise<void> | undefined;
  /** Marks the body as complete: the budget then no longer ends it before it was processed. */
  complete(): void;
  /** Releases everything. Idempotent. */
  leave(): void;
}

/** Bytes of each body that need no reservation: most deliveries are smaller. */
const FIRST_PART = 256 * 1024;
/** The share of the total that large bodies leave to first parts. */
const FOR_FIRST_PARTS = 1 / 8;
/** Milliseconds in which a request must bring `PROGRESS` bytes, or end; otherwise it has stalled. */
const PATIENCE = 500;
const PROGRESS = 64 * 1024;
/** Requests that may wait for room: each has a piece in memory. */
const MOST_WAITING_FOR_ROOM = 256;

const isFirstPart = (holder: Holder, bytes: number) => holder.held + bytes <= FIRST_PART;
const rest = (holder: Holder) => Math.max(0, holder.announced - holder.held);

/**
 * The memory for bodies before their senders are verified. Bytes count as they arrive: a sender that announces 25 MB and sends
 * nothing uses nothing.
 *
 * Nothing is refused while there is room. Otherwise requests wait: those of addresses that are not suspect go first, then those
 * whose address uses least, then those that use least themselves. The budget makes room by ending the worst: stalled requests,
 * and those of suspect addresses if another address waits.
 *
 * The first part of a body is taken byte by byte; the rest needs a reservation for the whole body. So large bodies arrive one
 * after the other, and never wait for each other half received.
 */
export class MemoryBudget {
  readonly #clock: Clock;
  readonly #isSuspect: (group: string) => boolean;
  readonly #total: number;
  /**
   * Unordered. An array, because V8 keeps the outgrown tables of a long-lived `Set`, and with them finished requests, until the next
   * full garbage collection.
   */
  readonly #holders: Holder[] = [];
  readonly #waiting = new Set<Holder>();
  /** Holders with a reservation for the rest of their body. */
  readonly #reserved = new Set<Holder>();
  readonly #byGroup = new Map<string, number>();
  #held = 0;
  /** Milliseconds in which this process could not read what had arrived. */
  #lost = 0;
  #nextCheck: number | undefined;

  /** @param isSuspect whether requests of this group failed so often that others go first */
  constructor(clock: Clock, isSuspect: (group: string) => boolean, total = 64 * 1024 * 1024) {
    this.#clock = clock;
    this.#isSuspect = isSuspect;
    this.#total = total;
  }

  /** Returns the bytes that are in use. */
  held(): number {
    return this.#held;
  }

  /**
   * Registers a request whose body begins to arrive. `leave` must follow.
   *
   * @param giveUp called if the request has to make room: it must end now
   */
  enter(group: string, announced: number, giveUp: (isSuspect: boolean) => void): BodyHolder {
    const now = this.#now();
    const holder: Holder = {
      group,
      announced,
      index: this.#holders.length,
      giveUp,
      since: now,
      held: 0,
      isComplete: false,
      movedAt: now,
      movedWith: 0,
    };
    this.#holders.push(holder);
    this.#scheduleCheck();
    return {
      take: (bytes) => this.#take(holder, bytes),
      complete: () => {
        holder.isComplete = true;
        this.#reserved.delete(holder);
        if (this.#waiting.size > 0) this.#settle();
      },
      leave: () => {
        this.#drop(holder);
        if (this.#waiting.size > 0) this.#settle();
      },
    };
  }

  #take(holder: Holder, bytes: number): Promise<void> | undefined {
    const isNext = this.#waiting.size === 0 || this.#reserved.has(holder) || isFirstPart(holder, bytes);
    if (isNext && this.#hasRoom(holder, bytes)) {
      this.#grant(holder, bytes);
      return undefined;
    }
    return new Promise((resolve) => {
      holder.waiting = { bytes, since: this.#now(), resolve };
      this.#waiting.add(holder);
      if (this.#waiting.size > MOST_WAITING_FOR_ROOM) this.#giveUp(this.#inTurn().at(-1) as Holder);
      this.#settle();
    });
  }

  /** Admits waiting requests in their order; makes room if allowed. */
  #settle(): void {
    for (let isMoving = true; isMoving; ) {
      const stuck = this.#inTurn().filter((holder) => !this.#admit(holder));
      isMoving = stuck.some((holder) => this.#makeRoom(holder));
    }
  }

  #inTurn(): readonly Holder[] {
    return [...this.#waiting].sort(
      (a, b) =>
        this.#suspicion(a) - this.#suspicion(b) ||
        this.#heldByGroup(a) - this.#heldByGroup(b) ||
        a.held - b.held ||
        a.since - b.since,
    );
  }

  #admit(holder: Holder): boolean {
    const { waiting } = holder;
    if (!waiting) return true;
    if (!this.#hasRoom(holder, waiting.bytes)) return false;
    this.#waiting.delete(holder);
    holder.waiting = undefined;
    // It could send nothing while it waited.
    holder.movedAt = this.#now();
    this.#grant(holder, waiting.bytes);
    waiting.resolve();
    return true;
  }

  #hasRoom(holder: Holder, bytes: number): boolean {
    if (this.#reserved.has(holder) && bytes <= rest(holder)) return true;
    // A lone request may use everything, and even more than the total.
    if (this.#held === holder.held) return true;
    const taken = this.#reserved.values().reduce((sum, each) => sum + rest(each), this.#held);
    if (isFirstPart(holder, bytes)) return taken + bytes <= this.#total;
    return taken + Math.max(bytes, rest(holder)) <= this.#total * (1 - FOR_FIRST_PARTS);
  }

  #grant(holder: Holder, bytes: number): void {
    if (!isFirstPart(holder, bytes)) this.#reserved.add(holder);
    this.#add(holder, bytes);
    if (holder.held - holder.movedWith < PROGRESS) return;
    holder.movedAt = this.#now();
    holder.movedWith = holder.held;
  }

  #add(holder: Holder, bytes: number): void {
    holder.held += bytes;
    this.#held += bytes;
    const ofGroup = this.#heldByGroup(holder) + bytes;
    if (ofGroup === 0) this.#byGroup.delete(holder.group);
    else this.#byGroup.set(holder.group, ofGroup);
  }

  /** Ends the worst of the requests that may be ended for this one. Returns whether there was one. */
  #makeRoom(next: Holder): boolean {
    const { waiting } = next;
    if (!waiting) return false;
    // A large body waits for those that are arriving, but not for others that wait too.
    const mayPress = isFirstPart(next, waiting.bytes) || this.#reserved.size === 0;
    const isImpatient = mayPress && this.#now() - waiting.since >= PATIENCE;
    let victim: Holder | undefined;
    for (const holder of this.#holders) {
      if (holder === next || holder.isComplete || holder.held === 0) continue;
      const hasStalled = !holder.waiting && this.#now() - holder.movedAt >= PATIENCE;
      const mayGo = isImpatient || hasStalled || this.#suspicion(holder) > this.#suspicion(next);
      if (mayGo && (!victim || this.#isWorse(holder, victim))) victim = holder;
    }
    if (victim) this.#giveUp(victim);
    return victim !== undefined;
  }

  /** Compares suspicion, then the memory of the address, then the memory of the request times the time that it was in use. */
  #isWorse(a: Holder, b: Holder): boolean {
    const cost = ({ held, since }: Holder) => held * (this.#now() - since + 1);
    const difference =
      this.#suspicion(a) - this.#suspicion(b) || this.#heldByGroup(a) - this.#heldByGroup(b) || cost(a) - cost(b);
    return difference > 0;
  }

  #giveUp(holder: Holder): void {
    const { giveUp } = holder;
    this.#drop(holder);
    giveUp?.(this.#isSuspect(holder.group));
  }

  #drop(holder: Holder): void {
    if (holder.index < 0) return;
    const last = this.#holders.pop() as Holder;
    if (last !== holder) {
      this.#holders[holder.index] = last;
      last.index = holder.index;
    }
    holder.index = -1;
    this.#waiting.delete(holder);
    this.#reserved.delete(holder);
    holder.giveUp = undefined;
    this.#add(holder, -holder.held);
  }

  #suspicion({ group }: Holder): number {
    return this.#isSuspect(group) ? 1 : 0;
  }

  #heldByGroup({ group }: Holder): number {
    return this.#byGroup.get(group) ?? 0;
  }

  /**
   * Milliseconds in which this process could read what arrived. The time stands still from the moment at which a check is due
   * until it happens: while the process is busy, senders seem to send nothing, which must not count against them.
   */
  #now(): number {
    return Math.min(this.#clock.monotonic(), this.#nextCheck ?? Number.POSITIVE_INFINITY) - this.#lost;
  }

  #scheduleCheck(): void {
    if (this.#nextCheck !== undefined) return;
    const due = this.#clock.monotonic() + PATIENCE / 2;
    this.#nextCheck = due;
    this.#clock.after(PATIENCE / 2, () => {
      this.#lost += Math.max(0, this.#clock.monotonic() - due);
      this.#nextCheck = undefined;
      if (this.#holders.length === 0) return;
      this.#scheduleCheck();
      this.#settle();
    });
  }
}

/** The share of an answer that passes through this process in the budget of its server, from its first byte until it was sent. */
export interface AnswerRoom {
  /** @param bytes the length that the answer announces; 0 if it announces none */
  announce(bytes: number): void;
  /** Requests room for received bytes. Returns undefined if there is some; otherwise resolves when there is. Rejects with `over_budget`. */
  take(bytes: number): Promise<void> | undefined;
  /** Releases everything. Idempotent. */
  leave(): void;
}

/** @param largest bytes that an answer has at most */
export function createAnswerRoom(budget: MemoryBudget, group: string, largest: number): AnswerRoom {
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => undefined);
  let announced = largest;
  let size = 0;
  let holder: BodyHolder | undefined;
  let hasLeft = false;
  const giveUp = () => {
    const hint = 'Repeat the request when fewer large answers are on their way.';
    ended.reject(new SyncError('over_budget', 'too many large answers are on their way', { hint }));
  };
  return {
    announce(bytes) {
      if (bytes > 0) announced = bytes;
    },
    take(bytes) {
      size += bytes;
      // The first part needs no room, because the number of requests in flight is small.
      if (size <= FIRST_PART || hasLeft) return undefined;
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

/** Cost of one turn of the event loop: a request costs one, and one more for each piece of this size, bytes. */
const PER_TURN = 64;
const PIECE = 64 * 1024;
/** Cost of a small body, at most. */
const SMALL = 1 + (256 * 1024) / PIECE;
const MOST_WAITING_FOR_TURN = 1_000;
/** One turn in this many belongs to suspect addresses. */
const FOR_SUSPECTS = 4;

interface Turn {
  readonly cost: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/**
 * Decides which signature is checked next, if more requests arrive than one turn of the event loop can check. Addresses are
 * served one after the other; suspect ones get the rest, and one turn in four if there is none. Within one address, small bodies
 * go first. If too many wait, the last one of the worst address is rejected.
 */
export class FairQueue {
  readonly #isSuspect: (group: string) => boolean;
  /** Waiting requests by address, in the order in which the addresses are served; small bodies stand first. */
  readonly #lines = new Map<string, Turn[]>();
  #count = 0;
  #spent = 0;
  #served = 0;
  #isRunning = false;

  constructor(isSuspect: (group: string) => boolean) {
    this.#isSuspect = isSuspect;
  }

  /** Returns undefined if the request may go at once; otherwise resolves at its turn. Rejects with a `RequestError`. */
  enter(group: string, bytes: number): Promise<void> | undefined {
    const cost = 1 + bytes / PIECE;
    if (!this.#isRunning) void this.#run();
    if (this.#count === 0 && (this.#spent === 0 || this.#spent + cost <= PER_TURN)) {
      this.#spent += cost;
      return undefined;
    }
    return new Promise((resolve, reject) => {
      const line = this.#lines.get(group) ?? [];
      this.#lines.set(group, line);
      const firstLarge = cost > SMALL ? -1 : line.findIndex((other) => other.cost > SMALL);
      line.splice(firstLarge === -1 ? line.length : firstLarge, 0, { cost, resolve, reject });
      if (++this.#count > MOST_WAITING_FOR_TURN) this.#rejectWorst();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    do {
      await yieldToEventLoop();
      this.#spent = 0;
      while (this.#count > 0 && this.#spent < PER_TURN) this.#serve();
    } while (this.#count > 0);
    this.#isRunning = false;
  }

  #serve(): void {
    const { suspects = [], others = [] } = Object.groupBy(this.#lines.keys(), (group) =>
      this.#isSuspect(group) ? 'suspects' : 'others',
    );
    const isTheirs = others.length === 0 || (suspects.length > 0 && ++this.#served % FOR_SUSPECTS === 0);
    const group = (isTheirs ? suspects : others)[0] as string;
    const line = this.#lines.get(group) as Turn[];
    const next = line.shift() as Turn;
    this.#lines.delete(group);
    if (line.length > 0) this.#lines.set(group, line);
    this.#count--;
    this.#spent += next.cost;
    next.resolve();
  }

  #rejectWorst(): void {
    const rank = ([group, line]: [string, Turn[]]) =>
      line.length + (this.#isSuspect(group) ? MOST_WAITING_FOR_TURN : 0);
    const [group, line] = this.#lines.entries().reduce((worst, each) => (rank(each) > rank(worst) ? each : worst));
    const last = line.pop() as Turn;
    if (line.length === 0) this.#lines.delete(group);
    this.#count--;
    last.reject(crowdedOut(this.#isSuspect(group)));
  }
}

/** Connections that are accepted above the limit, while others are closed. */
const SLACK = 500;

interface Connection {
  readonly socket: Socket;
  readonly group: string;
  state: 'idle' | 'receiving' | 'answering';
}

/** Connections by address, and within one address in the order in which they entered the state. */
type Connections = Map<string, Set<Connection>>;

/**
 * Limits the connections of a server; each takes some memory. If there are too many, one that waits for its sender is closed:
 * idle ones first, then those with an incomplete request; of these, one of the address that has most, and there the one that was
 * silent for longest. A connection whose sender waits for the answer is never closed.
 *
 * @returns the function of `Traffic.arrived`
 */
export function limitConnections(server: Server, most = 2_000): (socket: Socket) => void {
  const known = new Map<Socket, Connection>();
  const lines: Record<Connection['state'], Connections> = {
    idle: new Map(),
    receiving: new Map(),
    answering: new Map(),
  };
  server.maxConnections = most + SLACK;

  function leave(connection: Connection): void {
    const line = lines[connection.state];
    const group = line.get(connection.group);
    if (group?.delete(connection) && group.size === 0) line.delete(connection.group);
  }

  function enter(connection: Connection, state: Connection['state']): void {
    leave(connection);
    connection.state = state;
    const group = lines[state].get(connection.group);
    if (group) group.add(connection);
    else lines[state].set(connection.group, new Set([connection]));
  }

  function worst(line: Connections): Connection | undefined {
    let largest: Set<Connection> | undefined;
    for (const group of line.values()) if (!largest || group.size > largest.size) largest = group;
    return largest?.values().next().value;
  }

  function forget(connection: Connection): void {
    leave(connection);
    known.delete(connection.socket);
  }

  server.on('connection', (socket: Socket) => {
    const connection: Connection = { socket, group: groupOfAddress(socket.remoteAddress ?? ''), state: 'idle' };
    known.set(socket, connection);
    socket.on('close', () => forget(connection));
    if (known.size > most) {
      const victim = worst(lines.idle) ?? worst(lines.receiving) ?? connection;
      forget(victim);
      victim.socket.destroy();
    }
    if (known.has(socket)) enter(connection, 'idle');
  });
  server.on('request', ({ socket }, response: ServerResponse) => {
    const connection = known.get(socket);
    if (!connection) return;
    enter(connection, 'receiving');
    response.on('close', () => {
      if (known.has(socket)) enter(connection, 'idle');
    });
  });
  return (socket) => {
    const connection = known.get(socket);
    if (connection?.state === 'receiving') enter(connection, 'answering');
  };
}
