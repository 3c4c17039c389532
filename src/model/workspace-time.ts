/** Compares two times of the clock of the workspace, RFC 3339. A state without a time is neither older nor newer. */
export function isOlder(time: string | null | undefined, than: unknown): boolean {
  return typeof than === 'string' && Date.parse(time ?? '') < Date.parse(than);
}
