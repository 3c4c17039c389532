/**
 * JSON as a sender may write it, also in ways that no parser gives back: a key twice, numbers that no number holds, keys of
 * prototypes.
 */
export type Tree =
  | { readonly kind: 'object'; readonly pairs: readonly (readonly [key: string, value: Tree])[] }
  | { readonly kind: 'list'; readonly elements: readonly Tree[] }
  | { readonly kind: 'text'; readonly json: string };

/** Where something stands: keys and positions from the top. */
export type Place = readonly (string | number)[];

export function treeOf(value: unknown): Tree {
  if (Array.isArray(value)) return { kind: 'list', elements: value.map(treeOf) };
  if (typeof value !== 'object' || value === null) return { kind: 'text', json: JSON.stringify(value) };
  return { kind: 'object', pairs: Object.entries(value).map(([key, inside]) => [key, treeOf(inside)] as const) };
}

export function jsonOf(tree: Tree): string {
  if (tree.kind === 'text') return tree.json;
  if (tree.kind === 'list') return `[${tree.elements.map(jsonOf).join(',')}]`;
  return `{${tree.pairs.map(([key, value]) => `${JSON.stringify(key)}:${jsonOf(value)}`).join(',')}}`;
}

/** Places of all parts of a tree, itself first. Positions count pairs, so that each of two equal keys is a place. */
export function placesOf(tree: Tree, above: Place = []): Place[] {
  return [above, ...insideOf(tree).flatMap((inside, at) => placesOf(inside, [...above, at]))];
}

function insideOf(tree: Tree): readonly Tree[] {
  if (tree.kind === 'text') return [];
  return tree.kind === 'list' ? tree.elements : tree.pairs.map(([, value]) => value);
}

export function partAt(tree: Tree, [at, ...rest]: Place): Tree | undefined {
  if (at === undefined) return tree;
  const inside = insideOf(tree)[at as number];
  return inside && partAt(inside, rest);
}

type Change = (tree: Tree) => Tree;

/** Returns the tree with one part changed; the tree itself if there is no such place. */
export function changedAt(tree: Tree, [at, ...rest]: Place, change: Change): Tree {
  if (at === undefined) return change(tree);
  if (tree.kind === 'list')
    return { ...tree, elements: tree.elements.map((each, n) => (n === at ? changedAt(each, rest, change) : each)) };
  if (tree.kind === 'text') return tree;
  const pairs = tree.pairs.map(([key, value], n) => [key, n === at ? changedAt(value, rest, change) : value] as const);
  return { ...tree, pairs };
}

/** Returns the tree with the pair or element at a place replaced by some, or by none. */
export function splicedAt(
  tree: Tree,
  place: Place,
  make: (key: string, value: Tree) => Tree & { kind: 'object' },
): Tree {
  const at = place.at(-1);
  if (at === undefined) return tree;
  return changedAt(tree, place.slice(0, -1), (holder) => {
    if (holder.kind === 'text') return holder;
    if (holder.kind === 'object')
      return { ...holder, pairs: holder.pairs.flatMap((pair, n) => (n === at ? make(...pair).pairs : [pair])) };
    const elements = holder.elements.flatMap((each, n) =>
      n === at ? make('', each).pairs.map(([, value]) => value) : [each],
    );
    return { ...holder, elements };
  });
}
