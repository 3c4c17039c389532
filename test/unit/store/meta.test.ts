import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Installation } from '../../../src/store/installation.ts';
import {
  readMeta,
  recordTriageStarts,
  setTriagedConnections,
  triageSince,
  writeMeta,
} from '../../../src/store/meta.ts';
import { currentRevision, nextRevision } from '../../../src/store/revision.ts';
import { numbersOf } from '../../../src/store/workspace-numbers.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

const NOON = Date.UTC(2026, 0, 5, 12);

let installation: Installation;
beforeEach(async () => {
  installation = await openTestInstallation({ file: ':memory:' });
});
afterEach(() => installation.close());

const startTriage = async (names: readonly string[], connections: readonly string[], now: number) => {
  const numbers = await numbersOf(installation.query, names);
  const wanted = numbers.map((workspace) => ({ workspace, connections }));
  await recordTriageStarts(installation.query, wanted, now);
};
const since = async (name: string, connection: string) =>
  triageSince((await installation.store(name)).query, connection);
const openWorkspace = async (name: string, connections: readonly string[], now: number) =>
  (await installation.store(name)).commit((transaction) => setTriagedConnections(transaction, connections, now));

it('keeps the start of triage that another process recorded when the owner opens the workspace', async () => {
  await startTriage(['acme', 'other'], ['desk'], NOON);
  await openWorkspace('acme', ['desk', 'jira'], NOON + 5_000);
  expect(await since('acme', 'desk')).toBe(NOON);
  expect(await since('acme', 'jira')).toBe(NOON + 5_000);
  expect(await since('other', 'desk')).toBe(NOON);
});

it('keeps the start of triage that is already on', async () => {
  await openWorkspace('acme', ['desk'], NOON);
  await startTriage(['acme'], ['desk', 'jira'], NOON + 5_000);
  expect(await since('acme', 'desk')).toBe(NOON);
  expect(await since('acme', 'jira')).toBe(NOON + 5_000);
});

it('switches triage on for thousands of workspaces at once', async () => {
  const names = Array.from({ length: 2_100 }, (_, index) => `workspace-${index}`);
  await startTriage(names, ['desk'], NOON);
  await startTriage(names, ['desk', 'jira'], NOON + 5_000);
  expect(await since('workspace-2099', 'desk')).toBe(NOON);
  expect(await since('workspace-2099', 'jira')).toBe(NOON + 5_000);
});

it('numbers requests by revisions from 1 on', async () => {
  const { query } = await installation.store('acme');
  expect(await currentRevision(query)).toBe(0);
  expect([await nextRevision(query), await nextRevision(query)]).toEqual([1, 2]);
  expect(await currentRevision(query)).toBe(2);
});

it('overwrites a fact, also with an empty value', async () => {
  const { query } = await openTestStore();
  expect(await readMeta(query, 'a')).toBeUndefined();
  await writeMeta(query, 'a', '1');
  await writeMeta(query, 'a', '');
  expect(await readMeta(query, 'a')).toBe('');
});
