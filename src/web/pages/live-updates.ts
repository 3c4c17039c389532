import { Readable } from 'node:stream';
import type { Server, ServerReply, ServerRequest } from '../../platform/http/server.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import { credentialOf, isStillIn } from '../access-control.ts';
import type { Part } from './page-content.ts';
import { digestOf } from './page-frame.ts';

/** What a page shows at a moment. */
export interface Snapshot {
  readonly title: string;
  readonly parts: readonly Part[];
}

export interface LiveUpdates {
  /** Streams the parts of a page: all at first, then those that changed. */
  send(request: ServerRequest, reply: ServerReply, look: () => Promise<Snapshot>): ServerReply;
}

/** Between two looks, milliseconds. A look that takes long is followed by a longer pause. */
const EVERY = 2_000;
/** Of the time, the part that the looks of one stream may take. */
const SHARE = 1 / 20;
/** A stream ends after this time, and the browser begins another: nobody's stream stays because its end was lost. Milliseconds. */
const LONGEST = 60_000;
/** Streams at a time; more of them would make the pages slow for everybody. */
const MOST = 100;
/** Of one session or token: a browser shows few pages at a time, and takes six connections to one address at most. */
const MOST_OF_ONE = 12;
/** How soon a browser comes back, milliseconds. */
const RETRY = 1_000;

/**
 * Server-sent events, for pages that stay open. A caller that asks for no stream gets one look and the end. Before each look the
 * caller is let in anew: who was logged out, or has less rights by now, hears nothing more of what is not for them.
 */
export function createLiveUpdates(server: Server, clock: Clock): LiveUpdates {
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
    send(request, reply, look) {
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
      // Proxies that gather an answer before they pass it on would pass nothing on.
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

/** How many there are of each, and in all. */
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
