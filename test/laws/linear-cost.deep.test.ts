import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import type { Connector } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { SyncError } from '../../src/model/errors.ts';
import { LONGEST_SOURCE } from '../../src/model/text-limits.ts';
import { PROFILES } from '../contracts/connectors/index.ts';
import { openStepCounter } from '../support/cost/count-steps.ts';
import { type Hostile, READERS, SIGNS, SINGLE, textOf } from '../support/faults/stranger-texts.ts';
import { drawn, isDeep } from '../support/harness/depth.ts';

/**
 * Law: whatever a stranger writes, reading it takes time in proportion to its length. Steps are counted, not seconds, over
 * lengths that grow; each text is a few signs that mean something, repeated.
 */

/** The length of the shortest texts; they are read again with four times the length. */
const LENGTH = 150;
/** The length of the hardest text: the longest that is read. */
const LONGEST = isDeep ? LONGEST_SOURCE : 8_192;
/** Texts that are counted together, since asking for the count costs most: so few that one is seen among the others. */
const TOGETHER = 5;
/** Steps for each character, at most: with the square of the length it would be thousands. */
const MOST_PER_CHARACTER = 400;

const hostile: fc.Arbitrary<Hostile> = fc.record({
  repeated: fc.array(
    fc.array(fc.constantFrom(...SIGNS), { minLength: 1, maxLength: 3 }).map((signs) => signs.join('')),
    { minLength: 1, maxLength: 2 },
  ),
  end: fc.constantFrom('', ...SIGNS),
});

const counter = openStepCounter();
afterAll(() => counter.close());

type Read = (text: string) => unknown;

/** A text, and what reads it. */
interface Case {
  readonly name: string;
  readonly read: Read;
  readonly text: Hostile;
}

function perCharacter(cases: readonly Case[], length: number): number {
  const texts = cases.map(({ text }) => textOf(text, length));
  const steps = counter.count(() => {
    for (let at = 0; at < cases.length; at++) cases[at]?.read(texts[at] as string);
  });
  return steps / texts.reduce((sum, text) => sum + text.length, 0);
}

/** Reads all at two lengths, and the hardest ones at the longest. Empty where all is well. */
function tooHard(cases: readonly Case[], longest = 0): string {
  let hardest: readonly Case[] = [];
  let most = -1;
  for (let at = 0; at < cases.length; at += TOGETHER) {
    const some = cases.slice(at, at + TOGETHER);
    const cost = perCharacter(some, 4 * LENGTH);
    const fault = faultOf(some, perCharacter(some, LENGTH), cost);
    if (fault) return fault;
    if (cost > most) [hardest, most] = [some, cost];
  }
  if (longest === 0) return '';
  const costs = hardest.map((each) => ({ each, cost: perCharacter([each], 4 * LENGTH) }));
  const { each } = costs.reduce((worst, one) => (one.cost > worst.cost ? one : worst));
  // RE2 matches long texts in another way than short ones, at once and a half the cost; by the square it were eight times.
  return faultOf([each], perCharacter([each], longest / 8), perCharacter([each], longest), 2);
}

function faultOf(cases: readonly Case[], before: number, now: number, growth = 1.3): string {
  if (now <= Math.min(before * growth + 5, MOST_PER_CHARACTER)) return '';
  return `${before} to ${now} steps for each character: ${cases.map(({ name }) => name).join('\n')}`;
}

function casesOf(read: Read, texts: readonly Hostile[]): Case[] {
  return texts.map((text) => ({ name: JSON.stringify(text), read, text }));
}

/** They read texts of their own kind; the others read as these do, or hand on. */
const OWN_KIND = /^(Textile|HTML of|ADF of Jira$|links in a|JSON$)/;
const readers = Object.entries(READERS);

it.each(readers.filter(([name]) => OWN_KIND.test(name)))('%s: each sign, repeated', (_, read) => {
  expect(tooHard(casesOf(read, SINGLE), LONGEST)).toBe('');
});

it.each(readers)('%s: signs that follow one another [A8]', (_, read) => {
  expect(tooHard(casesOf(read, fc.sample(hostile, { numRuns: drawn(25), seed: 20_261_121 })), LONGEST)).toBe('');
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
    const cases: Case[] = [];
    for (const place of placesOf(JSON.parse(fixture))) {
      const name = `${event} ${place.join('.')}`;
      if (seen.has(name) || translate(place, 'some words') === translate(place, 'other words')) continue;
      seen.add(name);
      const [text] = fc.sample(hostile, { numRuns: 1, seed: seen.size });
      if (text) cases.push({ name: `${name}: ${JSON.stringify(text)}`, read: (long) => translate(place, long), text });
    }
    expect(tooHard(cases)).toBe('');
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
