import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { TaskStatuses } from '../../src/model/task-status.ts';
import { CONFIG_FOLDER } from '../../src/platform/config/config-files.ts';
import type { RulesConfig } from '../../src/platform/config/rules-schema.ts';
import { OWN_VARIANT } from '../../src/reference-service/http/variant.ts';
import { createWorld, GITHUB, type World } from '../support/harness/daemon.ts';
import { type PullSetting, pullEvent } from '../support/vendors/github-payloads.ts';

/** The rules of `config/examples/workflow.yaml` do what its comments say. */

let world: World;
afterEach(() => world.close());

async function open(): Promise<void> {
  const text = readFileSync(join(CONFIG_FOLDER, 'examples/workflow.yaml'), 'utf8');
  const { rules, workspace } = parse(text) as { rules: RulesConfig; workspace: { statuses: TaskStatuses } };
  const { statuses } = workspace;
  const config = { workspace: { statuses }, connections: { github: { ...GITHUB, issues: true } } };
  world = await createWorld({
    variant: { ...OWN_VARIANT, statuses },
    config: { ...config, rules: { ...rules, workflow: { ...rules.workflow, since: '2026-01-01' } } },
  });
  await world.settled();
}

async function pull(number: number, setting: PullSetting): Promise<void> {
  await world.clock.advance(1_000);
  await world.pull({ number, ...setting });
  await world.clock.advance(120_000);
  await world.settled();
}

async function task(key: string) {
  const { status, labels } = (await world.tasks()).find((each) => each.key === key) ?? {};
  return [status, labels];
}

it('moves a task through staging, QA, review and the release', async () => {
  await open();
  await world.bug('Door sticks');
  const first = { title: 'BUG-1: oil it', base: 'develop' };
  await pull(1, { ...first, draft: true });
  expect(await task('BUG-1')).toEqual(['in_progress', []]);
  await pull(1, first);
  expect(await task('BUG-1')).toEqual(['review', []]);
  await pull(1, { ...first, merged: true });
  expect(await task('BUG-1')).toEqual(['QA', []]);
  await pull(1, { ...first, merged: true, labels: ['qa-failed'] });
  expect(await task('BUG-1')).toEqual(['in_progress', []]);
  const second = { title: 'BUG-1: oil it again', base: 'develop' };
  await pull(2, second);
  expect(await task('BUG-1')).toEqual(['review', []]);
  await pull(2, { ...second, merged: true });
  expect(await task('BUG-1')).toEqual(['QA', []]);
  await pull(3, { title: 'Release', body: 'Fixes BUG-1, and mentions BUG-2', merged: true });
  expect(await task('BUG-1')).toEqual(['Released', []]);
});

it('cancels the task of an issue that is closed as not planned', async () => {
  await open();
  const issue = async (action: string, fields: object) => {
    await world.clock.advance(1_000);
    const at = new Date(world.clock.now()).toISOString();
    const user = { login: 'mona', id: 7 };
    const own = { id: 880_004, number: 4, title: 'Door sticks', body: null, user, created_at: at, updated_at: at };
    const rest = { labels: [{ name: 'bug' }], assignees: [], html_url: 'https://github.com/acme/app/issues/4' };
    const { repository } = pullEvent();
    await world.deliver('issues', { action, issue: { ...own, ...rest, ...fields }, repository, sender: user });
    await world.clock.advance(120_000);
    await world.settled();
  };
  await issue('opened', { state: 'open', state_reason: null, closed_at: null });
  expect(await task('BUG-1')).toEqual(['open', ['bug']]);
  const closed_at = new Date(world.clock.now()).toISOString();
  await issue('closed', { state: 'closed', state_reason: 'not_planned', closed_at });
  expect(await task('BUG-1')).toEqual(['cancelled', ['bug']]);
});
