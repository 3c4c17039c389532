/** One value of each dimension. */
export type Row<Dimension extends string> = Readonly<Record<Dimension, string>>;

/**
 * Rows in which each pair of values of two dimensions stands at least once. Greedy and deterministic: a row begins with
 * the first pair that is missing, and takes in each further dimension the value that covers the most missing pairs.
 */
export function coveringArray<Dimension extends string>(
  values: Readonly<Record<Dimension, readonly string[]>>,
): readonly Row<Dimension>[] {
  const dimensions = Object.keys(values) as Dimension[];
  const missing = new Map(pairsOf(dimensions, values).map((pair) => [nameOf(pair), pair]));
  const rows: Row<Dimension>[] = [];
  while (missing.size > 0) {
    const [first] = missing.values();
    const row = Object.fromEntries(first!) as Partial<Record<Dimension, string>>;
    const open = dimensions.filter((dimension) => row[dimension] === undefined);
    // Dimensions with many values come first, because they have the most pairs to cover.
    for (const dimension of open.toSorted((one, other) => values[other].length - values[one].length)) {
      row[dimension] = bestValue(dimension, row);
    }
    for (const pair of pairsIn(row as Row<Dimension>)) missing.delete(nameOf(pair));
    rows.push(Object.fromEntries(dimensions.map((dimension) => [dimension, row[dimension]])) as Row<Dimension>);
  }
  return rows;

  function bestValue(dimension: Dimension, row: Partial<Row<Dimension>>): string {
    const gain = (value: string) =>
      Object.entries(row).filter(([other, chosen]) =>
        missing.has(
          nameOf(
            ordered([
              [dimension, value],
              [other as Dimension, chosen as string],
            ]),
          ),
        ),
      ).length;
    return values[dimension].reduce((best, value) => (gain(value) > gain(best) ? value : best));
  }

  function pairsIn(row: Row<Dimension>): Pair<Dimension>[] {
    return pairsOf(dimensions, Object.fromEntries(dimensions.map((each) => [each, [row[each]]])) as never);
  }

  function ordered([one, other]: Pair<Dimension>): Pair<Dimension> {
    return dimensions.indexOf(one[0]) < dimensions.indexOf(other[0]) ? [one, other] : [other, one];
  }
}

type Pair<Dimension> = readonly [readonly [Dimension, string], readonly [Dimension, string]];

function pairsOf<Dimension extends string>(
  dimensions: readonly Dimension[],
  values: Readonly<Record<Dimension, readonly string[]>>,
): Pair<Dimension>[] {
  return dimensions.flatMap((one, at) =>
    dimensions.slice(at + 1).flatMap((other) =>
      values[one].flatMap((value) =>
        values[other].map(
          (second): Pair<Dimension> => [
            [one, value],
            [other, second],
          ],
        ),
      ),
    ),
  );
}

function nameOf(pair: Pair<string>): string {
  return JSON.stringify(pair);
}
