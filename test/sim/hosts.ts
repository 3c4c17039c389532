/** Where the workspace is. Providers are at `<connection>.test`, and processes at `replica-<number>.test`. */
export const WORKSPACE = 'workspace.test';

/** Only what people have asked reads a list of one. */
export const ASKED_BY_PEOPLE = 'tasks?limit=1';
