/** Compares two RFC 3339 times of the workspace's clock. A state without a time is neither older nor newer. */
export function isOlder(time: string | null | undefined, than: unknown): boolean {
  return typeof than === 'string' && Date.parse(time ?? '') < Date.parse(than);
}
