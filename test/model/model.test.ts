import { describe, expect, it } from 'vitest';
import { isDeep } from '../support/harness/depth.ts';
import { ALL_RULES, type Bounds, faultsOf, isDone, keyOf, type Rules, type State, startOf } from './model.ts';
import { openReal } from './real-store.ts';
import { search } from './search.ts';
import { stepsOf } from './steps.ts';

/** The limits of a short and a long window, in ticks. */
const TIGHT = [
  { cap: 1, length: 2 },
  { cap: 2, length: 4 },
];
const WIDE = [
  { cap: 2, length: 2 },
  { cap: 3, length: 4 },
];
const THREE = ['task', 'record', 'link'] as const;

/** The searches of each run, and those of a deep one. */
const BOUNDS: readonly Bounds[] = [
  { changes: ['task'], windows: TIGHT, kills: 1, losses: 1 },
  { changes: ['task', 'link', 'link'], windows: TIGHT, kills: 1, losses: 0 },
];
const DEEP_BOUNDS: readonly Bounds[] = [
  { changes: THREE, windows: TIGHT, kills: 1, losses: 0 },
  { changes: ['record'], windows: WIDE, kills: 1, losses: 1 },
  { changes: ['task', 'record'], windows: TIGHT, kills: 1, losses: 1 },
  { changes: ['record'], windows: TIGHT, kills: 2, losses: 1 },
];

/** An error of the model, not of what it models. */
const MOST = 1_000_000;

function explore(bounds: Bounds, rules: Rules = ALL_RULES) {
  const steps = stepsOf(bounds, rules);
  const faults = (state: State) => faultsOf(bounds, state);
  return search({ start: startOf(bounds), steps, keyOf, faults, isDone, most: MOST });
}

const named = ({ changes, kills, losses, windows }: Bounds) =>
  `${changes.join(', ')}; ${windows.map(({ cap }) => cap).join(' and ')} a window; ${kills} kills, ${losses} losses`;

describe('every course of two processes', () => {
  for (const bounds of isDeep ? [...BOUNDS, ...DEEP_BOUNDS] : BOUNDS) {
    it(`keeps the windows, doubles and loses nothing, and can always end (${named(bounds)})`, async () => {
      const { wrong, stuck, states } = await explore(bounds);
      expect(wrong).toBeUndefined();
      expect(stuck).toBeUndefined();
      expect(states.length).toBeGreaterThan(1_000);
    });
  }
});

describe('without one of the rules there is a course that goes wrong', () => {
  const shown = async (bounds: Bounds, left: keyof Rules) => {
    const { wrong, stuck } = await explore(bounds, { ...ALL_RULES, [left]: false });
    return [...(wrong?.faults ?? []), ...(wrong?.trace ?? []), ...(stuck ?? [])];
  };
  const one: Bounds = { changes: ['task'], windows: TIGHT, kills: 1, losses: 1 };

  it('the fence: who was taken over commits, and what it leaves is never sent', async () => {
    const { wrong, stuck } = await explore({ ...one, losses: 0 }, { ...ALL_RULES, fence: false });
    expect(wrong?.trace ?? stuck).toMatchSnapshot();
    expect(wrong ?? stuck).toBeDefined();
  });

  it('the reservation: two requests are on their way where one may be', async () => {
    expect(await shown({ ...one, changes: ['task', 'link'], losses: 0 }, 'reservation')).toMatchSnapshot();
  });

  it('the list before a repetition: a task is created twice', async () => {
    expect(await shown({ ...one, windows: WIDE }, 'readBack')).toMatchSnapshot();
  });

  it('the rest of what was on its way: an old write undoes a new one', async () => {
    expect(await shown({ changes: ['record'], windows: WIDE, kills: 1, losses: 0 }, 'restOfChanges')).toMatchSnapshot();
  });

  it('the rest of its slots: it arrives when its slot was given to another', async () => {
    expect(
      await shown({ changes: ['task', 'link'], windows: TIGHT, kills: 1, losses: 0 }, 'restOfSlots'),
    ).toMatchSnapshot();
  });
});

describe('the program takes the same courses', () => {
  const bounds: Bounds = { changes: THREE, windows: WIDE, kills: 1, losses: 1 };

  /** Plays the steps in the model and over a database, and compares after each. */
  async function play(trace: readonly string[]): Promise<void> {
    const steps = stepsOf(bounds, ALL_RULES);
    const real = await openReal(bounds);
    let state = startOf(bounds);
    for (const [index, name] of trace.entries()) {
      const next = steps(state).find((step) => step.name === name)?.next;
      if (!next) throw new Error(`${name} cannot happen`);
      const isKeptOut = await real.step(name, state);
      const what = trace.slice(0, index + 1).join('\n');
      if (name.includes('may not')) expect({ what, isKeptOut }).toEqual({ what, isKeptOut: true });
      const changes = next.changes.map(({ state: stands, rest }) => ({ state: stands, rest }));
      expect({ what, ...(await real.standing()) }).toEqual({ what, changes, ledger: next.ledger });
      state = next;
    }
    await real.close();
  }

  /** A course drawn step by step; time passes no more often than anything else. */
  function drawn(seed: number): readonly string[] {
    const steps = stepsOf(bounds, ALL_RULES);
    let state = startOf(bounds);
    let chance = seed;
    const trace: string[] = [];
    while (trace.length < 60) {
      const all = steps(state).filter(({ name }) => !name.includes('lapses') || state.kills < bounds.kills);
      chance = (Math.imul(chance, 1_664_525) + 1_013_904_223) >>> 0;
      const step = all[Math.floor((chance / 2 ** 32) * all.length)];
      if (!step) break;
      trace.push(step.name);
      state = step.next;
    }
    return trace;
  }

  /** The transitions of each change in a history: its state before and after. */
  function effectsOf(trace: readonly string[]): ReadonlySet<string> {
    const steps = stepsOf(bounds, ALL_RULES);
    let state = startOf(bounds);
    const effects = trace.flatMap((name) => {
      const before = state;
      state = steps(state).find((step) => step.name === name)?.next ?? state;
      return state.changes.map(({ state: stands, rest }, index) => {
        const { state: stood } = before.changes[index] ?? {};
        return `${name.replace(/\d/, '')}: ${index} ${stood} > ${stands} ${rest}`;
      });
    });
    return new Set(effects);
  }

  /** Returns the histories that show a transition which no earlier one did. */
  function courses(): readonly (readonly string[])[] {
    const seen = new Set<string>();
    return Array.from({ length: 150 }, (_, seed) => drawn(seed + 1)).filter((trace) => {
      const fresh = [...effectsOf(trace)].filter(
        (effect) => !seen.has(effect) && / (prepares|opens|gets|reads|may)/.test(effect),
      );
      for (const effect of fresh) seen.add(effect);
      return fresh.length > 0;
    });
  }

  it('in each row, after each step', async () => {
    const all = courses();
    const played = isDeep ? all : all.slice(0, 20);
    expect(played.length).toBeGreaterThan(10);
    for (const trace of played) await play(trace);
  });
});
