import { Readable } from 'node:stream';
import type { Server, ServerReply, ServerRequest } from '../../platform/http/server.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import { credentialOf, isStillIn } from '../access/access-control.ts';
import type { Part } from './page-content.ts';
import { digestOf } from './page-frame.ts';

export interface Snapshot {
  readonly title: string;
  readonly parts: readonly Part[];
}

/** Milliseconds between two snapshots. A slow snapshot is followed by a longer pause. */
const EVERY = 2_000;
/** The part of the time that the snapshots of one stream may take. */
const SHARE = 1 / 20;
/** Milliseconds after which a stream ends and the browser begins another, so that a stream whose end was lost does not stay. */
const LONGEST = 60_000;
/** Streams at a time; more of them would make the pages slow for everybody. */
const MOST = 100;
/** Streams of one session or token: a browser shows few pages at a time, and opens at most six connections to one address. */
const MOST_OF_ONE = 12;
/** Milliseconds after which a browser reconnects. */
const RETRY = 1_000;

/**
 * Server-sent events, for pages that stay open. A caller that requests no stream gets one snapshot and the end. The caller is
 * checked again before each snapshot, so that a logged-out caller, or one with fewer rights, gets no further data.
 */
export function createLiveUpdates(server: Server, clock: Clock) {
  const stopping = new AbortController();
  const open = createTally();
  server.addHook('preClose', async () => stopping.abort());

  async function* events(request: ServerRequest, { look, gone, isStream }: Stream): AsyncGenerator<string> {
    const end = clock.monotonic() + LONGEST;
    const sent = new Map<string, string>();
    let title: string | undefined;
    yield `retry: ${RETRY}\n\n`;
    do {
      const began = clock.monotonic();
      const snapshot = await look();
      if (snapshot.title !== title) yield eventOf('title', snapshot.title);
      title = snapshot.title;
      for (const part of snapshot.parts) {
        const digest = digestOf(part);
        if (sent.get(part.id) === digest) continue;
        sent.set(part.id, digest);
        yield eventOf('part', { id: part.id, digest, html: part.body.text });
      }
      yield eventOf('at', clock.now());
      if (!isStream) return;
      await sleep(clock, Math.max(EVERY, (clock.monotonic() - began) / SHARE), gone);
    } while (!gone.aborted && clock.monotonic() < end && (await isStillIn(request)));
  }

  return {
    /** Streams the parts of a page: all at first, then those that changed. */
    send(request: ServerRequest, reply: ServerReply, look: () => Promise<Snapshot>): ServerReply {
      const isStream = (request.headers.accept ?? '').includes('text/event-stream');
      const who = credentialOf(request);
      if (isStream && (open.all() >= MOST || open.of(who) >= MOST_OF_ONE))
        return reply.code(503).header('retry-after', '10').send({ error: 'too_many_streams' });
      const left = new AbortController();
      const gone = AbortSignal.any([stopping.signal, left.signal]);
      open.add(who, 1);
      reply.raw.once('close', () => {
        open.add(who, -1);
        left.abort();
      });
      // Proxies that buffer an answer would never forward the events.
      reply.header('x-accel-buffering', 'no').type('text/event-stream; charset=utf-8');
      return reply.send(Readable.from(events(request, { look, gone, isStream })));
    },
  };
}

interface Stream {
  readonly look: () => Promise<Snapshot>;
  readonly gone: AbortSignal;
  readonly isStream: boolean;
}

function createTally() {
  const counts = new Map<string, number>();
  let all = 0;
  return {
    all: () => all,
    of: (key: string) => counts.get(key) ?? 0,
    add(key: string, more: number) {
      all += more;
      const count = (counts.get(key) ?? 0) + more;
      if (count === 0) counts.delete(key);
      else counts.set(key, count);
    },
  };
}

/** JSON has no line breaks, which would end the event. */
function eventOf(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
