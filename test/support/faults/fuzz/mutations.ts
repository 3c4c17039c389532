import fc from 'fast-check';
import { KEYS, REPLACEMENTS } from './hostile.ts';
import { changedAt, jsonOf, type Place, partAt, placesOf, splicedAt, type Tree } from './json-tree.ts';

const json: fc.Arbitrary<string> = fc.oneof(
  ...REPLACEMENTS.map(({ weight, jsons }) => ({ weight, arbitrary: fc.constantFrom(...jsons) })),
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)) },
);
const where = fc.nat();
const key = fc.constantFrom(...KEYS);
const is = <const Name extends string>(does: Name) => fc.constant(does);

/** One change of a payload. Numbers are taken modulo what there is to choose from, so that each fits any payload. */
const mutation = fc.oneof(
  { weight: 10, arbitrary: fc.record({ does: is('replace'), where, json }) },
  { weight: 3, arbitrary: fc.record({ does: is('drop'), where }) },
  { weight: 1, arbitrary: fc.record({ does: is('rename'), where, key }) },
  { weight: 2, arbitrary: fc.record({ does: is('repeat'), where, json }) },
  { weight: 2, arbitrary: fc.record({ does: is('add'), where, key, json }) },
  // A copy of another part of the same payload takes the place.
  { weight: 3, arbitrary: fc.record({ does: is('copy'), where, from: where }) },
  { weight: 1, arbitrary: fc.record({ does: is('multiply'), where, times: fc.constantFrom(2, 3, 101, 1_001) }) },
);

type Mutation = ArbitraryValue<typeof mutation>;

export const mutations: fc.Arbitrary<readonly Mutation[]> = fc.array(mutation, { minLength: 1, maxLength: 4 });

const asTree = (text: string): Tree => ({ kind: 'text', json: text });

/** The payload after the changes, each of them in one of these places; wherever it holds something, unless places are given. */
export function mutated(tree: Tree, changes: readonly Mutation[], places?: readonly Place[]): Tree {
  return changes.reduce((changed, each) => {
    const among = places ?? placesOf(changed);
    const place = among[each.where % among.length] ?? [];
    return applied(changed, each, place);
  }, tree);
}

function applied(tree: Tree, change: Mutation, place: Place): Tree {
  switch (change.does) {
    case 'replace':
      return changedAt(tree, place, () => asTree(change.json));
    case 'drop':
      return splicedAt(tree, place, () => ({ kind: 'object', pairs: [] }));
    case 'rename':
      return splicedAt(tree, place, (_, value) => ({ kind: 'object', pairs: [[change.key, value]] }));
    case 'repeat':
      return splicedAt(tree, place, (name, value) => {
        const copy = [name, asTree(change.json)] as const;
        return { kind: 'object', pairs: [[name, value], copy] };
      });
    case 'add':
      return changedAt(tree, place, (at) =>
        at.kind === 'object' ? { ...at, pairs: [...at.pairs, [change.key, asTree(change.json)]] } : at,
      );
    case 'copy': {
      const others = placesOf(tree);
      const part = partAt(tree, others[change.from % others.length] ?? []);
      return changedAt(tree, place, (at) => part ?? at);
    }
    case 'multiply':
      return splicedAt(tree, place, (name, value) => {
        return { kind: 'object', pairs: Array.from({ length: change.times }, () => [name, value] as const) };
      });
  }
}

/** Bytes that are no UTF-8, overlong, halves of pairs, marks and zeros. */
const BYTES = ['ff', 'c080', 'eda080', 'f4908080', 'efbbbf', '00', '0a', '5b', '7d', '22'];

/** Damage of the bytes, in addition. */
export const damage = fc.oneof(
  { weight: 16, arbitrary: fc.constant({ does: 'nothing' } as const) },
  { weight: 1, arbitrary: fc.record({ does: is('truncate'), at: where }) },
  { weight: 1, arbitrary: fc.record({ does: is('insert'), at: where, hex: fc.constantFrom(...BYTES) }) },
  { weight: 1, arbitrary: fc.record({ does: is('flip'), at: where, by: fc.integer({ min: 1, max: 255 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({ does: is('encode'), as: fc.constantFrom('utf16le' as const, 'latin1' as const) }),
  },
);

type Damage = ArbitraryValue<typeof damage>;
type ArbitraryValue<Given> = Given extends fc.Arbitrary<infer Value> ? Value : never;

export function bytesOf(tree: Tree, harm: Damage): Buffer {
  const text = jsonOf(tree);
  if (harm.does === 'encode') return Buffer.from(text, harm.as);
  const bytes = Buffer.from(text);
  if (harm.does === 'nothing') return bytes;
  const at = harm.at % (bytes.length + 1);
  if (harm.does === 'truncate') return bytes.subarray(0, at);
  if (harm.does === 'insert')
    return Buffer.concat([bytes.subarray(0, at), Buffer.from(harm.hex, 'hex'), bytes.subarray(at)]);
  if (at < bytes.length) bytes[at] = (bytes[at] as number) ^ harm.by;
  return bytes;
}
