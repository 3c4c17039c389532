import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Lease } from '../../src/cluster/lease-holder.ts';
import { drawn } from '../support/harness/depth.ts';
import { type Cluster, commitUnder, leaseRow, type Member, openCluster } from '../support/postgres/holders.ts';

const WORKSPACES = ['one', 'two', 'three', 'four', 'five'];
const MEMBERS = 3;
const CALM = 15_000;
/** How often it is looked who trusts, milliseconds. */
const STEP = 200;

type Event =
  | { readonly what: 'pass'; readonly ms: number }
  | { readonly what: 'jump'; readonly ms: number }
  | {
      readonly what: 'kill' | 'sleep' | 'wake' | 'begin' | 'commit' | 'leave';
      readonly who: number;
      readonly workspace: number;
    };

const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ what: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 2_500 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      what: fc.constant('jump' as const),
      ms: fc.constantFrom(-3_600_000, -3_000, -1_000, -1, 1, 999, 1_000, 3_000, 10_000, 3_600_000),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      what: fc.constantFrom('kill', 'sleep', 'sleep', 'wake', 'wake', 'begin', 'begin', 'commit', 'commit', 'leave'),
      who: fc.nat(MEMBERS - 1),
      workspace: fc.nat(WORKSPACES.length - 1),
    }),
  },
);

/** How long statements and answers are on their way, milliseconds, one after the other and again. */
const latencies = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.constant(0) },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: 500 }) },
    { weight: 1, arbitrary: fc.integer({ min: 500, max: 4_000 }) },
  ),
  { minLength: 1, maxLength: 30 },
);

/** Work that a process has begun under a lease, and commits some time later. */
interface Work {
  readonly workspace: string;
  readonly lease: Lease;
  readonly epoch: number;
}

/** The processes at the same places: one that died or left is followed by another one, which joins when it wakes. */
async function play(events: readonly Event[], latencies: readonly number[]) {
  let isCalm = false;
  let turn = 0;
  const latency = () => (isCalm ? 0 : (latencies[turn++ % latencies.length] ?? 0));
  const cluster = await openCluster(WORKSPACES, latency);
  const places: Member[] = [];
  for (let place = 0; place < MEMBERS; place++) places.push(await cluster.join(`replica-${place}`));
  const leaving = new Set<Member>();
  const begun = new Map<number, Work>();
  /** Epochs of the commits of each workspace, in the order in which they were made. */
  const committed = new Map<string, number[]>(WORKSPACES.map((workspace) => [workspace, []]));

  async function commit(who: number): Promise<void> {
    const work = begun.get(who);
    if (!work) return;
    const present = (await leaseRow(cluster.installation, work.workspace)).epoch;
    const isKept = await commitUnder(cluster.installation, work.lease.fence, async () => {
      committed.get(work.workspace)?.push(work.epoch);
    }).then(
      () => true,
      (error: { code: string }) => {
        expect(error.code).toBe('lease_lost');
        return false;
      },
    );
    if (isKept) expect(work.epoch).toBe(present);
    if (work.lease.isTrusted()) expect(isKept).toBe(true);
  }

  async function begin(who: number, workspace: string): Promise<void> {
    const lease = places[who]?.holder.leaseOf(workspace);
    if (!lease) return;
    const { epoch } = await leaseRow(cluster.installation, workspace);
    begun.set(who, { workspace, lease, epoch });
  }

  async function wake(who: number): Promise<void> {
    const member = places[who] as Member;
    member.wake();
    if (!member.isAlive() || leaving.has(member))
      places[who] = await cluster.join(`replica-${who}-${cluster.members().length}`);
  }

  async function pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= STEP) {
      await cluster.clock.advance(Math.min(left, STEP));
      expect(heldTwice(cluster)).toEqual([]);
    }
  }

  async function carryOut(each: Event): Promise<void> {
    if (each.what === 'pass') return pass(each.ms);
    if (each.what === 'jump') return cluster.jumpStore(each.ms);
    const member = places[each.who] as Member;
    if (each.what === 'wake') return wake(each.who);
    if (each.what === 'begin' && member.isAwake()) return begin(each.who, WORKSPACES[each.workspace] as string);
    if (each.what === 'commit') return commit(each.who);
    if (each.what === 'kill') member.kill();
    if (each.what === 'sleep' && member.isAlive()) member.sleep();
    if (each.what !== 'leave' || !member.isAwake()) return;
    leaving.add(member);
    void member.holder.stop().then(() => member.kill());
  }

  for (const each of events) {
    await carryOut(each);
    await cluster.clock.advance(0);
    expect(heldTwice(cluster)).toEqual([]);
  }
  for (const epochs of committed.values()) expect(epochs).toEqual(epochs.toSorted((left, right) => left - right));
  return { cluster, places, wake, calm: () => void (isCalm = true) };
}

/** Workspaces that more than one trusts to hold. Those that sleep or died count: nobody tells a process that it will not go on. */
function heldTwice({ members }: Cluster): readonly string[] {
  const trusted = members().flatMap((member) => member.trusts());
  return trusted.filter((workspace, index) => trusted.indexOf(workspace) !== index);
}

const RUNS = { numRuns: drawn(300) };

describe('whatever happens to processes, timers and clocks', () => {
  test('no two trust in one workspace, and nobody commits after who came later', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { minLength: 10, maxLength: 60 }), latencies, async (events, times) => {
        const { cluster } = await play(events, times);
        expect(heldTwice(cluster)).toEqual([]);
      }),
      RUNS,
    );
  });

  test('when it has become calm, each workspace is held, evenly', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 30 }),
        latencies,
        fc.nat(MEMBERS - 1),
        async (events, times, survivor) => {
          const { cluster, places, wake, calm } = await play(events, times);
          calm();
          await wake(survivor);
          await cluster.clock.advance(CALM);
          expect(heldTwice(cluster)).toEqual([]);
          const shares = places.filter(({ isAwake }) => isAwake()).map((member) => member.trusts().length);
          expect(shares.reduce((sum, share) => sum + share, 0)).toBe(WORKSPACES.length);
          expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
        },
      ),
      RUNS,
    );
  });
});
