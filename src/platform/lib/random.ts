import { randomBytes, randomUUID } from 'node:crypto';

/** The only source of randomness. It is always a parameter, so that tests can repeat a run. */
export interface Random {
  /** Uniform in [0, 1). */
  float(): number;
  uuid(): string;
  bytes(length: number): Buffer;
}

export function systemRandom(): Random {
  return { float: () => Math.random(), uuid: () => randomUUID(), bytes: randomPool() };
}

/** Returns short sequences from a pool, because each system call costs more than filling the pool. */
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

/** The length of an id, bytes. Secrets are longer, and never come from the pool. */
const FEW = 16;

/** Exponential back-off with full jitter: uniform in (0, min(cap, base · 2^attempt)], milliseconds. */
export function backoff(random: Random, attempt: number, base = 1_000, cap = 300_000): number {
  const ceiling = Math.min(cap, base * 2 ** Math.min(attempt, 30));
  return Math.max(1, Math.ceil(random.float() * ceiling));
}
