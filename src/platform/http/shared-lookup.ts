import { lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';

type Callback = Parameters<LookupFunction>[2];

/**
 * Asks the system for a name once at a time, however many connections wait for it.
 *
 * Where no name server answers, the system takes many seconds for a name, looks up four at a time, and goes on after the
 * connection has given up. Attempts would pile up there with their sockets, and work with files would wait behind them.
 */
export function createSharedLookup(ask: LookupFunction = lookup): LookupFunction {
  const asked = new Map<string, Callback[]>();
  return (host, options, callback) => {
    const key = JSON.stringify([host, options]);
    const others = asked.get(key);
    if (others) {
      others.push(callback);
      return;
    }
    const waiting = [callback];
    asked.set(key, waiting);
    ask(host, options, (...answer) => {
      asked.delete(key);
      for (const tell of waiting) tell(...answer);
    });
  };
}
