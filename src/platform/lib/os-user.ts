import { userInfo } from 'node:os';

/** Returns the name of the user of this process, for people; its number if the system knows no name. */
export function osUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
