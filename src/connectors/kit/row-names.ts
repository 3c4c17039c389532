/**
 * The names of what polls and fetches bring: no webhook can be called so, since they hold a dot.
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
