import { userInfo } from 'node:os';

/** The name of the user of this process, for people; its number where the system knows no name. */
export function osUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
