/** Where the workspace is. Providers are at `<connection>.test`, and processes at `replica-<number>.test`. */
export const WORKSPACE = 'workspace.test';
