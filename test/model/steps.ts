import {
  type Bounds,
  type Change,
  DURATIONS,
  IDLE,
  type Message,
  type Process,
  type Rules,
  type Slot,
  type State,
} from './model.ts';
import type { Step, Window } from './search.ts';

/** The possible next steps. Each step of a process is one transaction, or one action without the database. */
export function stepsOf(bounds: Bounds, rules: Rules) {
  return (state: State): readonly Step<State>[] => [
    ...time(state, bounds),
    ...news(state, bounds),
    ...state.messages.flatMap((message, index) => [
      ...onTheWay(state, message, index),
      ...backAt(state, { message, index }, bounds, rules),
    ]),
    ...state.processes.flatMap((_, who) => [
      ...leases(state, who, bounds),
      ...deaths(state, who, bounds),
      ...opening(state, who, bounds, rules),
      ...sending(state, who, bounds, rules),
    ]),
  ];
}

/** Time passes only when what must have arrived by then has. */
function time(state: State, { windows }: Bounds): Step<State>[] {
  if (state.messages.some(({ left }) => left === 0)) return [];
  const longest = Math.max(...windows.map(({ length }) => length));
  const older = (slots: readonly Slot[]) =>
    slots.map((slot) => (slot === null ? null : slot + 1)).filter((slot) => slot === null || slot < longest);
  const next: State = {
    ...state,
    ledger: older(state.ledger),
    changes: state.changes.map((change) => ({ ...change, rest: Math.max(0, change.rest - 1) })),
    processes: state.processes.map((process) => ({ ...process, book: older(process.book) })),
    messages: state.messages.map((message) => ({ ...message, left: message.left === null ? null : message.left - 1 })),
    arrivals: state.arrivals.map((ago) => ago + 1).filter((ago) => ago < longest),
  };
  return [{ name: 'time passes', next }];
}

/** The record becomes desired otherwise, once. */
function news(state: State, { changes: names }: Bounds): Step<State>[] {
  const index = names.indexOf('record');
  const change = state.changes[index];
  if (change?.desired !== 1) return [];
  const stands = change.state === 'done' ? 'pending' : change.state;
  return [{ name: 'news', next: changed(state, index, { desired: 2, state: stands }) }];
}

function onTheWay(state: State, message: Message, index: number): Step<State>[] {
  const { change, value, left, outcome } = message;
  if (left === null) return [];
  const isAwaited = outcome === 'awaited';
  const arrived: State = {
    ...state,
    messages: isAwaited ? state.messages.with(index, { ...message, left: null }) : without(state.messages, index),
    held: state.held.with(change, value),
    made: state.made.with(change, (state.made[change] ?? 0) + 1),
    arrivals: [0, ...state.arrivals],
  };
  const steps = [{ name: `request ${change} of ${message.by} arrives (${outcome}, ${left})`, next: arrived }];
  if (!isAwaited) {
    const next = { ...state, messages: without(state.messages, index) };
    steps.push({ name: `request ${change} of ${message.by} never arrives (${outcome}, ${left})`, next });
  }
  return steps;
}

/** The end of a request: its answer, or none. */
function backAt(state: State, at: { message: Message; index: number }, bounds: Bounds, rules: Rules): Step<State>[] {
  const { message, index } = at;
  const { by, change, value, left, outcome } = message;
  if (outcome !== 'awaited') return [];
  const answered = () => {
    const next = { ...state, messages: without(state.messages, index) };
    const stands = state.changes[change]?.desired === value ? 'done' : 'pending';
    return settled(next, by, 0, { change, stands, rest: 0 }, rules);
  };
  const failed = () => {
    const late: Message = { ...message, outcome: 'failed', left: Math.min(left ?? 0, DURATIONS.grace) };
    const messages = left === null ? without(state.messages, index) : state.messages.with(index, late);
    const next = { ...state, losses: state.losses + 1, messages };
    const isUnknown = bounds.changes[change] === 'task' && rules.readBack;
    const outcome = {
      change,
      stands: isUnknown ? 'unknown' : 'pending',
      rest: isUnknown ? DURATIONS.settle : 0,
    } as const;
    return settled(next, by, -DURATIONS.grace, outcome, rules);
  };
  return [
    ...(left === null ? [{ name: `${by} gets answer ${change}`, next: answered() }] : []),
    ...(state.losses < bounds.losses ? [{ name: `${by} gets no answer ${change}`, next: failed() }] : []),
  ];
}

interface Outcome {
  readonly change: number;
  readonly stands: Change['state'];
  readonly rest: number;
}

/** The transaction after a request: the fence keeps out whom another one has followed. */
function settled(state: State, who: number, slot: number, { change, stands, rest }: Outcome, rules: Rules): State {
  if (rules.fence && !isOwner(state, who)) return closed(state, who);
  const end = (slots: readonly Slot[]) => sorted(rules.reservation ? ended(slots, slot) : [...slots, slot]);
  const book = end(processOf(state, who).book);
  return doing(changed({ ...state, ledger: end(state.ledger) }, change, { state: stands, rest }), who, { book });
}

/** Whoever has lapsed may be taken over: its row is removed first, so that it cannot come back. */
function leases(state: State, who: number, { kills: most }: Bounds): Step<State>[] {
  const process = processOf(state, who);
  const steps: Step<State>[] = [];
  const kills = state.kills + (process.trusts ? 1 : 0);
  if (state.owner === who && !state.isLapsed && kills <= most)
    steps.push({
      name: `lease of ${who} lapses`,
      next: doing({ ...state, isLapsed: true, kills }, who, { trusts: false }),
    });
  if (!process.isAlive) return steps;
  if (process.lease === 'none' && state.isLapsed) {
    const processes = state.processes.map((each) =>
      each.lease === 'none' ? each : { ...each, lease: 'old' as const },
    );
    const taken = { ...state, processes, owner: who, isLapsed: false };
    steps.push({ name: `${who} takes the lease`, next: doing(taken, who, { lease: 'current', trusts: true }) });
  }
  if (process.lease !== 'none' && !process.trusts)
    steps.push({ name: `${who} sees that its lease has lapsed`, next: closed(state, who) });
  return steps;
}

function deaths(state: State, who: number, { kills }: Bounds): Step<State>[] {
  const { isAlive } = processOf(state, who);
  if (!isAlive) return [{ name: `${who} starts`, next: doing(state, who, IDLE) }];
  if (state.kills >= kills) return [];
  const dead = doing(closed(state, who), who, { isAlive: false });
  return [{ name: `${who} is killed`, next: { ...dead, kills: state.kills + 1 } }];
}

/** `openWindowLedger` and `recover`. */
function opening(state: State, who: number, { changes: names }: Bounds, rules: Rules): Step<State>[] {
  const process = processOf(state, who);
  if (process.lease === 'none' || process.isOpen) return [];
  if (rules.fence && !isOwner(state, who)) return [{ name: `${who} may not open`, next: closed(state, who) }];
  const grace = rules.restOfSlots ? DURATIONS.rest : DURATIONS.grace;
  const ledger = sorted(state.ledger.map((slot) => slot ?? -grace));
  const rest = rules.restOfChanges ? DURATIONS.rest : 0;
  const changes = state.changes.map((change, index): Change => {
    if (change.state !== 'sending') return change;
    if (names[index] !== 'task' || !rules.readBack) return { ...change, state: 'pending', rest };
    return { ...change, state: 'unknown', rest: rest + DURATIONS.settle };
  });
  const next = doing({ ...state, ledger, changes }, who, { isOpen: true, book: ledger });
  return [{ name: `${who} opens`, next }];
}

function sending(state: State, who: number, bounds: Bounds, rules: Rules): Step<State>[] {
  const process = processOf(state, who);
  if (!process.isOpen) return [];
  if (process.prepared) return process.trusts ? [send(state, who, process.prepared)] : [];
  if (!hasRoom(process.book, bounds.windows)) return [];
  return state.changes.flatMap(({ state: stands, rest, desired }, change): Step<State>[] => {
    const isDue = rest === 0 && (stands === 'pending' || stands === 'unknown');
    if (!isDue) return [];
    if (rules.fence && !isOwner(state, who)) return [{ name: `${who} may not prepare`, next: closed(state, who) }];
    const reserved = (slot: Slot) => ({
      ...state,
      ledger: sorted([...state.ledger, slot]),
      processes: state.processes.with(who, { ...process, book: sorted([...process.book, slot]) }),
    });
    if (stands === 'unknown') {
      const next = changed(reserved(0), change, { state: state.made[change] ? 'done' : 'pending' });
      return [{ name: `${who} reads back ${change}`, next: { ...next, arrivals: [0, ...state.arrivals] } }];
    }
    const next = changed(rules.reservation ? reserved(null) : state, change, { state: 'sending' });
    return [{ name: `${who} prepares ${change}`, next: doing(next, who, { prepared: { change, value: desired } }) }];
  });
}

function send(state: State, who: number, { change, value }: NonNullable<Process['prepared']>): Step<State> {
  const others = state.messages.filter((other) => other.change !== change || other.outcome !== 'failed');
  const message: Message = { by: who, change, value, left: DURATIONS.life, outcome: 'awaited' };
  const messages = [...others, message].toSorted(
    (a, b) => a.by - b.by || a.change - b.change || (a.left ?? -1) - (b.left ?? -1),
  );
  const next = doing({ ...state, messages }, who, { prepared: null });
  return { name: `${who} sends ${change}`, next };
}

/** Whether both windows have room for one more request, as `model/windows.ts` reckons. */
function hasRoom(book: readonly Slot[], windows: readonly Window[]): boolean {
  return windows.every(({ cap, length }) => book.filter((slot) => slot === null || slot < length).length < cap);
}

function isOwner({ owner }: State, who: number): boolean {
  return owner === who;
}

function processOf({ processes }: State, who: number): Process {
  return processes[who] as Process;
}

function doing(state: State, who: number, change: Partial<Process>): State {
  return { ...state, processes: state.processes.with(who, { ...processOf(state, who), ...change }) };
}

function changed(state: State, index: number, change: Partial<Change>): State {
  return { ...state, changes: state.changes.with(index, { ...(state.changes[index] as Change), ...change }) };
}

/** It forgets all, also the answers that it waits for. */
function closed(state: State, who: number): State {
  const messages = state.messages
    .filter(({ by, left }) => by !== who || left !== null)
    .map((each): Message => (each.by === who && each.outcome === 'awaited' ? { ...each, outcome: 'orphan' } : each));
  return doing({ ...state, messages }, who, { ...IDLE, isAlive: processOf(state, who).isAlive });
}

function ended(slots: readonly Slot[], slot: number): readonly Slot[] {
  const open = slots.indexOf(null);
  return open === -1 ? slots : slots.with(open, slot);
}

/** Slots have no names: in one order, equal ledgers are one state. */
function sorted(slots: readonly Slot[]): readonly Slot[] {
  return slots.toSorted((a, b) => (a ?? -99) - (b ?? -99));
}

function without<Each>(all: readonly Each[], index: number): readonly Each[] {
  return all.filter((_, place) => place !== index);
}
