/**
 * The names of the rows that polls and fetches bring.
 *
 * @param noun what is listed: `issues` in `issues.list`
 */
export function rowNames(noun: string) {
  return {
    list: `${noun}.list`,
    item: `${noun}.get`,
    gone: `${noun}.gone`,
    judged: `${noun}.judged`,
    missing: `${noun}.missing`,
  };
}
