/** What is larger is worked through by another thread, bytes: so much takes the main thread some milliseconds. */
export const LARGE = 1024 * 1024;
