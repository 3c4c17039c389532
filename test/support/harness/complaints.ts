/**
 * Returns the standard error of a command without the lines about waiting: whether they are printed depends on real time, and so
 * on the load of the machine.
 */
export function complaintsOf({ stderr }: { readonly stderr: string }): string {
  return stderr.replace(/^worksync: .*[Ww]aiting for .*at most .*\n/gm, '');
}
