/** Lists of strings as they stand in a column. Most are empty, which is worth not parsing. */
export function readStrings(column: string): string[] {
  return column === '[]' ? [] : (JSON.parse(column) as string[]);
}

export function writeStrings(strings: readonly string[] | undefined): string {
  return strings === undefined ? '[]' : JSON.stringify(strings);
}
