type Values = Readonly<Record<string, readonly string[]>>;
type Row = Readonly<Record<string, string>>;

/**
 * Rows in which each pair of values of two dimensions stands at least once. Greedy and deterministic: a row begins with
 * the first pair that is missing, and takes in each further dimension the value that covers the most missing pairs.
 */
export function coveringArray(values: Values): readonly Row[] {
  const missing = new Set(allPairs(values));
  const rows: Row[] = [];
  for (let [first] = missing; first !== undefined; [first] = missing) {
    let row = JSON.parse(first) as Row;
    const gain = (more: Row) => pairsOf(more).filter((pair) => missing.has(pair)).length;
    // Dimensions with many values come first, because they have the most pairs to cover.
    const open = Object.entries(values).filter(([name]) => row[name] === undefined);
    for (const [name, own] of open.toSorted(([, a], [, b]) => b.length - a.length)) {
      const [best] = own.map((value) => ({ ...row, [name]: value })).toSorted((a, b) => gain(b) - gain(a));
      row = best as Row;
    }
    for (const pair of pairsOf(row)) missing.delete(pair);
    rows.push(row);
  }
  return rows;
}

/** The pairs of a row, each as the JSON of a row with two dimensions. */
function pairsOf(row: Row): string[] {
  const cells = Object.entries(row).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return cells.flatMap((one, at) =>
    cells.slice(at + 1).map((other) => JSON.stringify(Object.fromEntries([one, other]))),
  );
}

function allPairs(values: Values): string[] {
  const cells = Object.entries(values).flatMap(([name, own]) => own.map((value) => ({ [name]: value })));
  return cells.flatMap((one, at) => cells.slice(at + 1).flatMap((other) => pairsOf({ ...one, ...other })));
}
