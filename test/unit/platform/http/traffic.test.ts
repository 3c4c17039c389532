import { EventEmitter } from 'node:events';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { describe, expect, it, test } from 'vitest';
import { createAddressGuard, groupOfAddress } from '../../../../src/platform/http/addresses.ts';
import { type BodyHolder, FairQueue, limitConnections, MemoryBudget } from '../../../../src/platform/http/admission.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';

const MEBIBYTE = 1024 * 1024;
const KIBIBYTE = 1024;

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:0DB8:0001:0002::9', '2001:db8:1:2::/64'],
  ['1::3:4:5:6:7:8', '1:0:3:4::/64'],
  ['unknown:port', 'unknown:port'],
])('the address %s is one of %s', (address, group) => {
  expect(groupOfAddress(address)).toBe(group);
});

describe('the budget of bodies', () => {
  /** A budget of 16 MiB, and who was given up. */
  function open(poisonMessages: readonly string[] = []) {
    const clock = createTravellingClock();
    let paused = 0;
    const budget = new MemoryBudget(
      { ...clock, monotonic: () => clock.monotonic() + paused },
      (group) => poisonMessages.includes(group),
      16 * MEBIBYTE,
    );
    const gone: string[] = [];
    const enter = (name: string, announced = 8 * MEBIBYTE, group = name) =>
      budget.enter(group, announced, () => gone.push(name));
    /** Time passes, and the process fires no timer. */
    const pause = (ms: number) => void (paused += ms);
    return { clock, pause, budget, gone, enter };
  }

  /** Takes in pieces as they come; false where it has to wait. */
  function takes(holder: BodyHolder, bytes: number): boolean {
    for (let left = bytes; left > 0; left -= 64 * KIBIBYTE) {
      if (holder.take(Math.min(left, 64 * KIBIBYTE))) return false;
    }
    return true;
  }

  it('lets large bodies in one after the other, so that none waits half received', async () => {
    const { budget, gone, enter } = open();
    const bodies = ['a', 'b', 'c', 'd'].map((name) => enter(name, 8 * MEBIBYTE));
    const first = bodies.map((body) => takes(body, 512 * KIBIBYTE));
    // One is promised all it needs, the others wait behind their first part.
    expect(first).toEqual([true, false, false, false]);
    expect(takes(bodies[0] as BodyHolder, 7.5 * MEBIBYTE)).toBe(true);
    bodies[0]?.complete();
    bodies[0]?.leave();
    expect(takes(bodies[1] as BodyHolder, 7 * MEBIBYTE)).toBe(true);
    expect(gone).toEqual([]);
    expect(budget.held()).toBeLessThan(16 * MEBIBYTE);
  });

  it('gives half-sent bodies up when others wait, and only then', async () => {
    const { clock, budget, gone, enter } = open();
    const half = enter('half');
    expect(takes(half, 7.9 * MEBIBYTE)).toBe(true);
    await clock.advance(60_000);
    expect(gone).toEqual([]);
    const good = enter('good');
    expect(takes(good, 256 * KIBIBYTE)).toBe(true);
    const room = good.take(64 * KIBIBYTE);
    expect(gone).toEqual(['half']);
    await room;
    expect(takes(good, 7 * MEBIBYTE)).toBe(true);
    expect(budget.held()).toBe(7.3125 * MEBIBYTE);
  });

  it('waits for a body that goes on, however large it is', async () => {
    const { clock, gone, enter } = open();
    const slow = enter('slow');
    expect(takes(slow, MEBIBYTE)).toBe(true);
    const other = enter('other');
    takes(other, 256 * KIBIBYTE);
    let isIn = false;
    void other.take(64 * KIBIBYTE)?.then(() => {
      isIn = true;
    });
    for (let index = 0; index < 20; index++) {
      await clock.advance(400);
      expect(takes(slow, 256 * KIBIBYTE)).toBe(true);
    }
    expect([gone, isIn]).toEqual([[], false]);
    slow.leave();
    await clock.advance(0);
    expect(isIn).toBe(true);
  });

  it('a suspect makes room at once, whether it goes on or not', async () => {
    const { gone, enter } = open(['forger']);
    expect(takes(enter('forger'), 8 * MEBIBYTE)).toBe(true);
    const good = enter('good');
    takes(good, 256 * KIBIBYTE);
    await good.take(64 * KIBIBYTE);
    expect(gone).toEqual(['forger']);
  });

  it('drops the stalled requests of the address with the most memory first [A12]', async () => {
    const { clock, gone, enter } = open();
    const small = (name: string, group: string) => takes(enter(name, 8 * MEBIBYTE, group), 256 * KIBIBYTE);
    for (let index = 0; index < 60; index++) expect(small(`one ${index}`, 'one')).toBe(true);
    for (let index = 0; index < 4; index++) expect(small(`other ${index}`, 'other')).toBe(true);
    await clock.advance(1_000);
    await enter('good', KIBIBYTE).take(KIBIBYTE);
    expect(gone).toEqual(['one 0']);
  });

  it('what is here whole is never given up', async () => {
    const { clock, gone, enter } = open();
    const whole = enter('whole');
    takes(whole, 8 * MEBIBYTE);
    whole.complete();
    await clock.advance(10_000);
    takes(enter('other'), MEBIBYTE);
    await clock.advance(10_000);
    expect(gone).toEqual([]);
  });

  it('those that wait for each other do not wait for ever', async () => {
    const { clock, gone, enter } = open();
    let arrived = 0;
    const bodies = Array.from({ length: 20 }, (_, index) => enter(`body ${index}`, 15 * MEBIBYTE));
    for (const body of bodies) expect(takes(body, 256 * KIBIBYTE)).toBe(true);
    for (const body of bodies) void body.take(64 * KIBIBYTE)?.then(() => arrived++);
    await clock.advance(60_000);
    expect([gone.length, arrived]).toEqual([19, 1]);
  });

  it('a bounded number waits', () => {
    const { gone, enter } = open();
    takes(enter('large'), 8 * MEBIBYTE);
    for (let index = 0; index < 300; index++) void enter(`w${index}`).take(300 * KIBIBYTE);
    expect(gone.length).toBe(300 - 256);
  });

  it('one that is complete gives back the room that it does not need', async () => {
    const { clock, budget, enter } = open();
    const [short, next] = [enter('short', 14 * MEBIBYTE), enter('next')];
    takes(short, MEBIBYTE);
    takes(next, 256 * KIBIBYTE);
    let isIn = false;
    void next.take(64 * KIBIBYTE)?.then(() => {
      isIn = true;
    });
    await clock.advance(0);
    expect(isIn).toBe(false);
    short.complete();
    await clock.advance(0);
    expect([isIn, budget.held()]).toEqual([true, MEBIBYTE + 320 * KIBIBYTE]);
    // Nothing waits any more.
    expect(takes(enter('third', MEBIBYTE), MEBIBYTE)).toBe(true);
  });
});

describe('turns', () => {
  /** Lets everybody in and tells in which order. */
  async function served(
    requests: readonly (readonly [group: string, bytes: number])[],
    poisonMessages: readonly string[] = [],
  ) {
    const turns = new FairQueue((group) => poisonMessages.includes(group));
    const order: string[] = [];
    const all = requests.map(async ([group, bytes]) => {
      try {
        await turns.enter(group, bytes);
        order.push(group);
      } catch (error) {
        order.push(`${group} ${(error as { statusCode?: number }).statusCode}`);
      }
    });
    await Promise.all(all);
    return order;
  }

  it('nobody waits while one turn of the event loop can take all', () => {
    const turns = new FairQueue(() => true);
    for (let index = 0; index < 60; index++) expect(turns.enter('a', 100)).toBeUndefined();
    expect(new FairQueue(() => true).enter('a', 25_000_000)).toBeUndefined();
  });

  it('an address with many requests does not keep others waiting', async () => {
    const order = await served([...Array.from({ length: 300 }, () => ['many', 100] as const), ['one', 100]]);
    expect(order.indexOf('one')).toBeLessThan(70);
    expect(order).toHaveLength(301);
  });

  it('suspects come after others, but are not starved [A12]', async () => {
    const forged = Array.from({ length: 200 }, () => ['forger', 100] as const);
    const good = Array.from({ length: 200 }, () => ['good', 100] as const);
    const order = (await served([...forged, ...good], ['forger'])).slice(70);
    const half = order.slice(0, 160);
    expect(half.filter((group) => group === 'good').length).toBe(120);
  });

  it('when too many wait, the worst address is turned away: 429 where it is suspect, else 503 [A12]', async () => {
    const forged = Array.from({ length: 1_500 }, () => ['forger', 100] as const);
    const order = await served([...forged, ['good', 100]], ['forger']);
    expect(order.filter((each) => each === 'forger 429').length).toBeGreaterThan(400);
    expect(order.filter((each) => each.endsWith('503'))).toEqual([]);
    expect(order).toContain('good');
    expect(await served(Array.from({ length: 1_100 }, () => ['busy', 100] as const))).toContain('busy 503');
  });
});

describe('connections', () => {
  /** A server with room for four, and sockets by the order in which they came. */
  function open() {
    const server = new EventEmitter() as Server;
    const arrived = limitConnections(server, 4);
    const gone: string[] = [];
    const connect = (name: string, remoteAddress = '192.0.2.1') => {
      const socket = Object.assign(new EventEmitter(), { remoteAddress, destroy: () => gone.push(name) });
      server.emit('connection', socket);
      return socket as unknown as Socket;
    };
    /** Begins a request; the function ends its answer. */
    const request = (socket: Socket) => {
      const response = new EventEmitter();
      server.emit('request', { socket }, response);
      return () => void response.emit('close');
    };
    return { arrived, gone, connect, request };
  }

  it('of idle ones the one that said nothing for longest goes', () => {
    const { gone, connect, request } = open();
    const [first] = ['a', 'b', 'c', 'd'].map((name) => connect(name));
    request(first as Socket)();
    connect('e');
    connect('f');
    expect(gone).toEqual(['b', 'c']);
  });

  it('one whose request still comes in goes when none is idle; one that waits for its answer never', () => {
    const { arrived, gone, connect, request } = open();
    const sockets = ['a', 'b', 'c', 'd'].map((name) => connect(name));
    for (const socket of sockets) request(socket);
    for (const socket of sockets.slice(0, 3)) arrived(socket);
    const next = connect('e');
    request(next);
    arrived(next);
    expect(gone).toEqual(['d']);
    connect('f');
    expect(gone).toEqual(['d', 'f']);
  });
});

describe('the guard of addresses', () => {
  const PATIENCE = { burst: 60, perSecond: 1 };

  test('an address that keeps failing is turned away, the others are not, and it gets its tries back with time', async () => {
    const clock = createTravellingClock();
    const guard = createAddressGuard(clock, PATIENCE);
    for (let index = 0; index < 60; index++) {
      expect(guard.admits('192.0.2.1')).toBe(true);
      guard.failed('192.0.2.1');
    }
    expect(guard.admits('192.0.2.1')).toBe(false);
    expect(guard.admits('192.0.2.2')).toBe(true);
    await clock.advance(1_000);
    expect(guard.admits('192.0.2.1')).toBe(true);
  });

  test('remembers a bounded number of addresses', () => {
    const guard = createAddressGuard(createTravellingClock(), PATIENCE);
    for (let index = 0; index < 60; index++) guard.failed('192.0.2.1');
    for (let index = 0; index < 10_000; index++) guard.failed(`2001:db8::${index.toString(16)}`);
    expect(guard.admits('192.0.2.1')).toBe(true);
  });
});
