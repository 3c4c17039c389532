/** The oldest Node that the package runs on: the newest that one of its dependencies asks for. */
export const OLDEST_NODE = '22.19.0';

/** @param version as `process.versions.node` has it */
export function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE.split('.').map(Number);
  return major < oldestMajor || (major === oldestMajor && minor < oldestMinor);
}
