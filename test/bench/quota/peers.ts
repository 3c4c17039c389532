import { setImmediate as turn } from 'node:timers/promises';
import FakeTimers from '@sinonjs/fake-timers';
import Bottleneck from 'bottleneck';
import PQueue from 'p-queue';
import type { Write } from './references/lag.ts';
import type { Event } from './references/trace.ts';
import { createGate } from './references/windows.ts';

/** How others would keep the limits: what a program without knowledge of our kind would take from the registry. */
export const PEERS = ['p-queue', 'p-queue.keyed', 'bottleneck'] as const;
export type Peer = (typeof PEERS)[number];

type Limiter = (job: () => Promise<void>) => void;

const LONG = { cap: 200, length: 900_000 };
const SHORT = { cap: 40, length: 60_000 };
const CONCURRENCY = 8;
/** Any moment but 0, which bottleneck takes for none. */
const START = Date.UTC(2026, 0, 5);

const LIMITERS: Readonly<Record<Peer, () => Limiter>> = {
  'p-queue': pQueue,
  'p-queue.keyed': pQueue,
  bottleneck: bottleneckReservoirs,
};

/** Both windows strict, the long one around the short one. */
function pQueue(): Limiter {
  const long = new PQueue({ interval: LONG.length, intervalCap: LONG.cap, strict: true });
  const often = { interval: SHORT.length, intervalCap: SHORT.cap, strict: true };
  const short = new PQueue({ ...often, concurrency: CONCURRENCY });
  return (job) => void long.add(() => short.add(job));
}

/** It has fixed windows only: a reservoir that is filled up again when its time has passed. */
function bottleneckReservoirs(): Limiter {
  const [long, short] = [LONG, SHORT].map(
    ({ cap, length }) =>
      new Bottleneck({
        ...{ reservoir: cap, reservoirRefreshAmount: cap, reservoirRefreshInterval: length },
        ...{ heartbeatInterval: 250, maxConcurrent: CONCURRENCY },
      } as Bottleneck.ConstructorOptions),
  ) as [Bottleneck, Bottleneck];
  short.chain(long);
  return (job) => void short.schedule(job);
}

/**
 * Plays the events against a peer, on a fake clock, with an in-process transport to the same windows. One job for each event;
 * keyed: one for each item that has none waiting. A refused request waits as long as it was told, and is sent again.
 */
export async function playPeer(
  peer: Peer,
  events: readonly Event[],
  { duration = () => 0.15, arrives = () => 0.5 }: { duration?: () => number; arrives?: () => number } = {},
) {
  const fake = FakeTimers.install({
    now: START,
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'],
  });
  try {
    const seconds = () => (fake.now - START) / 1_000;
    const limited = LIMITERS[peer]();
    const gate = createGate();
    const writes: Write[] = [];
    const waiting = new Set<string>();
    const sleep = (seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1_000));
    let requests = 0;
    let left = 0;
    const send = async (item: string): Promise<void> => {
      waiting.delete(item);
      const start = seconds();
      const takes = duration();
      const reaches = takes * arrives();
      requests++;
      await sleep(reaches);
      const wait = gate.arrive(seconds());
      await sleep(takes - reaches);
      if (wait === undefined) writes.push({ item, start, end: seconds() });
      else await sleep(wait).then(() => send(item));
    };
    const ask = ({ item }: Event) => {
      if (peer === 'p-queue.keyed' && waiting.has(item)) return;
      waiting.add(item);
      left++;
      limited(() => send(item).finally(() => left--));
    };
    const happen = (index: number) => {
      const event = events[index];
      if (event === undefined) return;
      left++;
      setTimeout(
        () => {
          ask(event);
          left--;
          happen(index + 1);
        },
        // Fake time is in whole milliseconds: not a moment before the event.
        START + Math.ceil(event.at * 1_000) - fake.now,
      );
    };
    happen(0);
    while (left > 0) {
      fake.next();
      await turn();
    }
    // `took`: seconds until the last answer.
    return { writes, requests, refused: requests - writes.length, took: seconds() };
  } finally {
    fake.uninstall();
  }
}
