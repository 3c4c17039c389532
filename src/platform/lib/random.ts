import { randomBytes, randomUUID } from 'node:crypto';

/** All chance comes from here, always passed in, so that tests can repeat it. */
export interface Random {
  /** Uniform in [0, 1). */
  float(): number;
  uuid(): string;
  bytes(length: number): Buffer;
}

export function systemRandom(): Random {
  return { float: () => Math.random(), uuid: () => randomUUID(), bytes: randomPool() };
}

/** Few bytes at a time come from a store of them: each call of the system costs more than filling it. */
function randomPool(): (length: number) => Buffer {
  const size = 4_096;
  let pool = Buffer.alloc(0);
  return (length) => {
    if (length > FEW) return randomBytes(length);
    if (pool.length < length) pool = randomBytes(size);
    const taken = pool.subarray(0, length);
    pool = pool.subarray(length);
    return taken;
  };
}

/** Ids take so many; secrets take more, and are never kept. */
const FEW = 16;

/** Exponential back-off with full jitter: uniform in (0, min(cap, base · 2^attempt)], milliseconds. */
export function backoff(random: Random, attempt: number, base = 1_000, cap = 300_000): number {
  const ceiling = Math.min(cap, base * 2 ** Math.min(attempt, 30));
  return Math.max(1, Math.ceil(random.float() * ceiling));
}
