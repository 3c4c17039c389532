/**
 * What a command said on standard error, but for what it waits for: it says so after a moment of real time, which a busy machine
 * may take for anything.
 */
export function complaintsOf({ stderr }: { readonly stderr: string }): string {
  return stderr.replace(/^worksync: .*[Ww]aiting for .*at most .*\n/gm, '');
}
