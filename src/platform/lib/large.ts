/** Bytes above which another thread does the work: this many take the main thread some milliseconds. */
export const LARGE = 1024 * 1024;
