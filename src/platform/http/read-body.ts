import type { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { BodyHolder, MemoryBudget } from './memory-budget.ts';
import { crowdedOut, RequestError } from './request-error.ts';

interface Reading {
  readonly payload: IncomingMessage;
  /** Largest body accepted, bytes. */
  readonly limit: number;
  readonly budget: MemoryBudget;
  /** The address group whose share of the budget it uses. */
  readonly group: string;
}

/**
 * Reads a whole body within the budget. A body in one piece, as most are, is used without a copy. Otherwise its bytes are copied
 * into one buffer, because many small pieces would take many times their length.
 *
 * @returns its part of the budget: `leave` it when the request was answered
 */
export function readBody(
  { payload, limit, budget, group }: Reading,
  done: (error: Error | null, body?: Buffer) => void,
): BodyHolder | undefined {
  const announced = Number(payload.headers['content-length'] ?? Number.NaN);
  if (announced > limit) {
    done(tooLarge());
    return undefined;
  }
  const body = createPieces(Number.isNaN(announced) ? limit : announced);
  // Node's parser returns each piece as a copy of its own.
  const isOurs = payload.socket instanceof Socket;
  const add = (piece: Buffer) => {
    const isAlone = isOurs && piece.length === piece.buffer.byteLength;
    if (isAlone && piece.length === announced) return body.adopt(piece);
    body.add(piece);
    if (isAlone) free(piece);
  };
  let isOver = false;
  const end = (error: Error | null) => {
    if (isOver) return;
    isOver = true;
    payload.off('data', take).off('end', finish).off('error', fail);
    if (!error) return done(null, body.whole());
    holder.leave();
    body.free();
    done(error);
  };
  const holder = budget.enter(group, Number.isNaN(announced) ? limit : announced, (isSuspect) =>
    end(crowdedOut(isSuspect)),
  );
  const take = (piece: Buffer) => {
    if (body.length() + piece.length > limit) return end(tooLarge());
    const room = holder.take(piece.length);
    if (!room) return add(piece);
    payload.pause();
    void room.then(() => {
      if (isOver) return;
      add(piece);
      payload.resume();
    });
  };
  const finish = () => {
    if (!Number.isNaN(announced) && announced !== body.length())
      return end(new RequestError(400, 'the body is shorter than announced'));
    holder.complete();
    end(null);
  };
  const fail = () => end(new RequestError(400, 'the body was cut off'));
  payload.on('data', take).on('end', finish).on('error', fail);
  payload.resume();
  return holder;
}

function tooLarge(): RequestError {
  return new RequestError(413, 'the body is too large');
}

interface Pieces {
  add(piece: Buffer): void;
  /** Uses the only piece without a copy. */
  adopt(piece: Buffer): void;
  length(): number;
  whole(): Buffer;
  free(): void;
}

const EMPTY = Buffer.alloc(0);
const SMALLEST = 64 * 1024;
const GROWTH = 4;

/** One buffer that grows, and frees the outgrown one at once: garbage of this size waits long for its collection. */
function createPieces(most: number): Pieces {
  let buffer: Buffer = EMPTY;
  let length = 0;
  const grow = (needed: number) => {
    const capacity = Math.min(most, Math.max(SMALLEST, buffer.length * GROWTH, needed));
    // Unwritten memory takes no space.
    const larger = Buffer.allocUnsafeSlow(capacity);
    buffer.copy(larger, 0, 0, length);
    free(buffer);
    buffer = larger;
  };
  return {
    add(piece) {
      if (length + piece.length > buffer.length) grow(length + piece.length);
      piece.copy(buffer, length);
      length += piece.length;
    },
    adopt(piece) {
      buffer = piece;
      length = piece.length;
    },
    length: () => length,
    whole: () => buffer.subarray(0, length),
    free: () => free(buffer),
  };
}

/** Only for buffers without other references, and that are no part of another. */
function free(buffer: Buffer): void {
  if (buffer.length > 0) (buffer.buffer as ArrayBuffer).transfer(0);
}
