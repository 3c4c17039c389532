import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyOperations, placesOf, type TextOperation } from '../../src/reference-service/documents/documents.ts';
import { cpuTimeOf } from '../support/cost/cpu-time.ts';
import { drawn, holds } from '../support/harness/depth.ts';

/** Where a text occurs, said once more in the plainest way: every start is tried. */
function allPlaces(text: string, wanted: string): number[] {
  const starts = Array.from({ length: text.length + 1 }, (_, start) => start);
  return starts.filter((start) => text.slice(start, start + wanted.length) === wanted);
}

type Outcome = { text: string } | { errorCode: string; at: number };

function model(text: string, operations: readonly TextOperation[]): Outcome {
  let units = text.split('');
  for (const [at, operation] of operations.entries()) {
    const wanted = 'target' in operation ? operation.target : operation.anchor;
    const places = allPlaces(units.join(''), wanted);
    if (places.length === 0) return { errorCode: 'patch_target_not_found', at };
    if (places.length > 1) return { errorCode: 'patch_target_ambiguous', at };
    const put: Record<TextOperation['kind'], string> = {
      replace_text: 'replacement' in operation ? operation.replacement : '',
      delete_text: '',
      insert_before: 'text' in operation ? operation.text + wanted : '',
      insert_after: 'text' in operation ? wanted + operation.text : '',
    };
    units = [...units];
    units.splice(places[0]!, wanted.length, ...put[operation.kind].split(''));
  }
  return { text: units.join('') };
}

function outcomeOf(text: string, operations: readonly TextOperation[]): Outcome {
  try {
    return { text: applyOperations(text, operations) };
  } catch (error) {
    const { errorCode, message } = error as { errorCode: string; message: string };
    return { errorCode, at: Number(message.match(/^ops\.(\d+):/)?.[1]) };
  }
}

/** Few letters, so that texts repeat themselves; pairs that share their first or second half; both line ends. */
const letters = fc.constantFrom('a', 'b', 'ab', '😀', '😁', '🄀', '\r\n', '\n', 'é', 'e\u0301', '\u0000');
const prose = (from: number, to: number) =>
  fc.array(letters, { minLength: from, maxLength: to }).map((all) => all.join(''));

/** Places that stand in the text as it was first, and others. */
const operationOn = (letters: readonly string[]): fc.Arbitrary<TextOperation> => {
  const part = fc
    .tuple(fc.nat(letters.length), fc.integer({ min: 1, max: 5 }))
    .map(([start, length]) => letters.slice(start, start + length).join('') || 'a');
  const place = fc.oneof({ weight: 4, arbitrary: part }, { weight: 1, arbitrary: prose(1, 3) });
  return fc.oneof(
    fc.record({ kind: fc.constant('replace_text' as const), target: place, replacement: prose(0, 4) }),
    fc.record({ kind: fc.constant('delete_text' as const), target: place }),
    fc.record({ kind: fc.constant('insert_before' as const), anchor: place, text: prose(0, 4) }),
    fc.record({ kind: fc.constant('insert_after' as const), anchor: place, text: prose(0, 4) }),
  );
};

const scene = fc.array(letters, { maxLength: 16 }).chain((given) =>
  fc.record({
    text: fc.constant(given.join('')),
    operations: fc.array(operationOn(given), { minLength: 1, maxLength: 4 }),
  }),
);

describe('W49 operations on text', () => {
  it('W43, W49 do what the plain model does, or refuse where it refuses', () => {
    let [applied, refused] = [0, 0];
    holds(scene, 3_000, ({ text, operations }) => {
      const outcome = outcomeOf(text, operations);
      expect(outcome).toEqual(model(text, operations));
      if ('text' in outcome) applied++;
      else refused++;
    });
    // Otherwise the property says little.
    expect(Math.min(applied, refused)).toBeGreaterThan(drawn(3_000) / 6);
  });

  it.each([
    ['overlapping occurrences are several', 'aaa', 'aa', { errorCode: 'patch_target_ambiguous', at: 0 }],
    ['the whole text', 'aa', 'aa', { text: 'X' }],
    ['other case is other text', 'Abc', 'abc', { errorCode: 'patch_target_not_found', at: 0 }],
    ['composed and decomposed letters differ', 'é', 'e\u0301', { errorCode: 'patch_target_not_found', at: 0 }],
    ['a line end is kept as it is', 'one\r\ntwo\r\n', 'two', { text: 'one\r\nX\r\n' }],
    ['no pattern: a dot is a dot', 'a.c abc', 'a.c', { text: 'X abc' }],
  ])('%s', (_what, text, target, expected) => {
    expect(outcomeOf(text, [{ kind: 'replace_text', target, replacement: 'X' }])).toEqual(expected);
  });
});

describe('W49 a hundred operations on 200 000 characters', () => {
  const millisecondsOf = (work: () => unknown) => {
    const runs = Array.from({ length: 5 }, () => cpuTimeOf(work));
    return Math.min(...runs);
  };

  it('stay linear on texts made to slow a search down', () => {
    const text = 'a'.repeat(200_000);
    const hostile = (half: number) => `${'a'.repeat(half)}b${'a'.repeat(half)}`;
    // One such search by `indexOf` alone takes a third of a second for 10 000, and over a second for 100 000.
    for (const half of [500, 5_000, 50_000])
      expect(millisecondsOf(() => placesOf(text, hostile(half)))).toBeLessThan(50);
  });
});
