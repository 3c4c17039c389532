import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Connector } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { SyncError } from '../../src/model/errors.ts';
import { PROFILES } from '../contracts/connectors/index.ts';
import { quickestOf } from '../support/cost/cpu-time.ts';
import { type Hostile, READERS, SIGNS, SINGLE, textOf } from '../support/faults/stranger-texts.ts';
import { drawn } from '../support/harness/depth.ts';

/**
 * Law: whatever a stranger writes, reading it takes time in proportion to its length: each text is a few signs that mean something,
 * repeated until it is long.
 */

const LENGTH = 131_072;
/** Milliseconds of CPU. The slowest reader takes a tenth of it; one that goes back over what it has read takes ten times as much. */
const MOST = 1_000;

const hostile: fc.Arbitrary<Hostile> = fc.record({
  repeated: fc.array(
    fc.array(fc.constantFrom(...SIGNS), { minLength: 1, maxLength: 3 }).map((signs) => signs.join('')),
    { minLength: 1, maxLength: 2 },
  ),
  end: fc.constantFrom('', ...SIGNS),
});

type Read = (text: string) => unknown;

/** The texts over which this takes too long. */
function tooHard(read: Read, texts: readonly Hostile[]): readonly Hostile[] {
  return texts.filter((each) => {
    const text = textOf(each, LENGTH);
    return quickestOf(1, () => read(text)) > MOST && quickestOf(3, () => read(text)) > MOST;
  });
}

const readers = Object.entries(READERS);

it.each(readers)('%s takes time in proportion to the length of a text [A8]', (_, read) => {
  expect(tooHard(read, [...SINGLE, ...fc.sample(hostile, { numRuns: drawn(25), seed: 20_261_121 })])).toEqual([]);
});

/** A vendor's payload with hostile texts in every place that is used. */
it.each(PROFILES)('deliveries of $id [A8]', ({ id, options: given, fixtures }) => {
  const connector = connectors.find((each) => each.id === id) as Connector<unknown>;
  const options = connector.options.parse(given);
  const seen = new Set<string>();
  for (const { file, source, event } of fixtures.filter(({ outcome }) => outcome === 'items')) {
    const fixture = readFileSync(new URL(`../../src/connectors/${id}/fixtures/${file}.json`, import.meta.url), 'utf8');
    /** Translates it with this text in this place; a refused payload has been read too. */
    const translate = (place: readonly string[], text: string) => {
      const body = Buffer.from(JSON.stringify(filled(JSON.parse(fixture), place, text)));
      try {
        return JSON.stringify(connector.translate({ source, event, body }, options));
      } catch (error) {
        if (error instanceof SyncError) return error.code;
        throw error;
      }
    };
    for (const place of placesOf(JSON.parse(fixture))) {
      const name = `${event} ${place.join('.')}`;
      if (seen.has(name) || translate(place, 'some words') === translate(place, 'other words')) continue;
      seen.add(name);
      const [text] = fc.sample(hostile, { numRuns: 1, seed: seen.size });
      expect([name, tooHard((long) => translate(place, long), text ? [text] : [])]).toEqual([name, []]);
    }
  }
  expect(seen.size).toBeGreaterThan(0);
});

/** Where texts stand; of a list its first element stands for all. */
function placesOf(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value === 'string') return [path];
  if (typeof value !== 'object' || value === null) return [];
  const entries = Array.isArray(value) ? Object.entries(value).slice(0, 1) : Object.entries(value);
  return entries.flatMap(([name, inside]) => placesOf(inside, [...path, name]));
}

function filled(value: unknown, [name, ...rest]: readonly string[], text: string): unknown {
  if (name === undefined) return text;
  const holder = value as Record<string, unknown>;
  holder[name] = filled(holder[name], rest, text);
  return holder;
}
