import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Installation } from '../../../src/store/installation.ts';
import { recordTriageStarts, setTriagedConnections, triageSince } from '../../../src/store/meta.ts';
import { numbersOf } from '../../../src/store/workspace-numbers.ts';
import { openTestInstallation } from '../../support/store.ts';

const NOON = Date.UTC(2026, 0, 5, 12);

let installation: Installation;
beforeEach(async () => {
  installation = await openTestInstallation({ file: ':memory:' });
});
afterEach(() => installation.close());

const on = async (names: readonly string[], connections: readonly string[], now: number) => {
  const numbers = await numbersOf(installation.query, names);
  const wanted = numbers.map((workspace) => ({ workspace, connections }));
  await recordTriageStarts(installation.query, wanted, now);
};
const since = async (name: string, connection: string) =>
  triageSince((await installation.store(name)).query, connection);
const open = async (name: string, connections: readonly string[], now: number) =>
  (await installation.store(name)).commit((transaction) => setTriagedConnections(transaction, connections, now));

it('triage that a process switched on for a workspace of others counts from then, when its owner opens it later', async () => {
  await on(['acme', 'other'], ['desk'], NOON);
  await open('acme', ['desk', 'jira'], NOON + 5_000);
  expect(await since('acme', 'desk')).toBe(NOON);
  expect(await since('acme', 'jira')).toBe(NOON + 5_000);
  expect(await since('other', 'desk')).toBe(NOON);
});

it('triage that is on stays as it is', async () => {
  await open('acme', ['desk'], NOON);
  await on(['acme'], ['desk', 'jira'], NOON + 5_000);
  expect(await since('acme', 'desk')).toBe(NOON);
  expect(await since('acme', 'jira')).toBe(NOON + 5_000);
});

it('triage of thousands of workspaces is switched on at once', async () => {
  const names = Array.from({ length: 2_100 }, (_, index) => `workspace-${index}`);
  await on(names, ['desk'], NOON);
  await on(names, ['desk', 'jira'], NOON + 5_000);
  expect(await since('workspace-2099', 'desk')).toBe(NOON);
  expect(await since('workspace-2099', 'jira')).toBe(NOON + 5_000);
});
