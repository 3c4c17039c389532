import { describe, expect, it } from 'vitest';
import type { WorkItem } from '../../../../src/model/item.ts';
import { patternText } from '../../../../src/platform/lib/pattern.ts';
import {
  createTriage,
  type NewTask,
  type TriageInput,
  type TriageRule,
} from '../../../../src/sync/reconcile/triage.ts';
import { workItem } from '../../../support/rows/items.ts';

const rule = (fields: Partial<TriageRule> = {}): TriageRule => ({
  when: {},
  create: 'bug',
  title: '{title}',
  labels: [],
  ...fields,
});
const decide = (rules: readonly TriageRule[], item: Partial<WorkItem> = {}, since = 0) =>
  createTriage({ triage: rules, users: { jira: { ann: 'u1' } } }).decide(workItem(item), 'main', since);

describe('the items', () => {
  it.each<[when: TriageRule['when'], item: Partial<WorkItem>, matches: boolean]>([
    [{}, {}, true],
    [{ connection: ['other', 'm'] }, {}, false],
    [{ project: ['web*'] }, { containerName: 'Website' }, true],
    [{ project: ['1'] }, {}, false],
    [{ labels: ['*'] }, {}, false],
    [{ priority: ['P[1]'] }, { priority: 'P1' }, false],
    [{ text: patternText('(?i)crash') }, { title: 'It CRASHES' }, true],
    [{ text: patternText('^crash') }, { title: 'x', description: 'a crash' }, false],
    // A finished item becomes no task unless a rule names its state.
    [{}, { state: 'done' }, false],
    [{ status: ['completed'] }, { state: 'done' }, true],
    [{ status: ['completed'] }, { state: 'done', isDropped: true }, false],
    [{ status: ['dropped'] }, { state: 'done', isDropped: true }, true],
    [{ status: ['Verified'] }, { state: 'done', rawState: 'verified' }, true],
    [{ status: ['open'] }, { state: 'in_progress', rawState: 'Doing' }, false],
    // The move is newer than any `since`.
    [{}, { movedAway: 'Operations' }, false],
  ])('by %j match %j: %j', (when, item, matches) => {
    expect(decide([rule({ when })], item).outcome === 'create').toBe(matches);
  });

  it('are decided by the first matching rule, with a reason for the others', () => {
    const rules = [rule({ when: { type: ['Epic'] } }), rule({ create: 'nothing' }), rule({ create: 'idea' })];
    expect(decide(rules)).toMatchObject({ outcome: 'nothing', rule: 2 });
    expect(decide(rules, { type: 'epic' })).toMatchObject({ outcome: 'create', rule: 1 });
    expect(decide([rules[0] as TriageRule])).toEqual({ outcome: 'no rule', why: ['rule 1: type does not fit'] });
  });

  it('have changed since triage was switched on, or since the time of the rule', () => {
    expect(decide([rule()], { updatedAt: 999 }, 1_000).outcome).toBe('nothing');
    expect(decide([rule()], { updatedAt: 1_000 }, 1_000).outcome).toBe('create');
    expect(decide([rule({ since: 0 })], { updatedAt: 5 }, 1_000).outcome).toBe('create');
    expect(decide([rule({ since: 2_000 })], { updatedAt: 1_500 }, 1_000).outcome).toBe('nothing');
    // Our clock was set back to a time before triage was switched on.
    expect(decide([rule()], { updatedAt: 500, toldAt: 1_500 }, 1_000).outcome).toBe('create');
  });
});

describe('the task', () => {
  const taskOf = (fields: Partial<TriageRule>, item: Partial<WorkItem>) => {
    const decision = decide([rule(fields)], item);
    if (decision.outcome !== 'create') throw new Error('nothing is created');
    return decision.task;
  };

  it('contains the known fields only', () => {
    const description = 'Source: jira ENG-1';
    expect(taskOf({}, {})).toEqual({ kind: 'bug', title: 'An issue', description, source: workItem().key });
  });

  it.each<[priority: string | null, map: TriageRule['priority'], expected: string | undefined]>([
    ['Highest', undefined, 'urgent'],
    ['Major', undefined, 'high'],
    [null, undefined, undefined],
    ['constructor', undefined, undefined],
    ['Whatever', { WHATEVER: 'low' }, 'low'],
    ['Highest', { '*': 'none' }, 'none'],
    [null, { '*': 'medium' }, 'medium'],
  ])('has a priority of the workspace: %j %j', (priority, map, expected) => {
    expect(taskOf({ priority: map }, { priority }).priority).toBe(expected);
  });

  it('respects the limits of the workspace for any item', () => {
    const hostile = {
      title: `${'x'.repeat(500)}`,
      description: 'd'.repeat(300_000),
      labels: Array.from({ length: 300 }, (_, index) => ` ${index} ${'l'.repeat(400)}`),
      createdAt: 'yesterday',
    };
    const task = taskOf({ title: '{title}' }, hostile);
    expect(task.title).toHaveLength(255);
    expect(task.description?.length).toBeLessThanOrEqual(200_000);
    expect(task.labels).toHaveLength(100);
    expect(task.labels?.every((label) => label.length <= 255 && label.trim() === label)).toBe(true);
    expect(task.reportedAt).toBeUndefined();
    for (const title of ['  \n ', '\u200b\u2060', '\u3164\u00ad\ufe0f'])
      expect(taskOf({}, { title }).title).toBe('ENG-1');
    expect(taskOf({ title: '{author} {priority}' }, {}).title).toBe('ENG-1');
  });

  it('contains configured users only, and never a guess', () => {
    expect(taskOf({}, { author: 'Ann', assignees: ['ann', 'bo'] })).toMatchObject({
      reporterUserId: 'u1',
      assigneeIds: ['u1'],
    });
    expect(taskOf({ reporter: 'u9' }, { author: 'bo' })).toMatchObject({ reporterUserId: 'u9' });
    expect(taskOf({}, { author: '__proto__', assignees: ['toString'] })).not.toHaveProperty('reporterUserId');
  });
});

describe('the fields that are sent', () => {
  it.each<[send: TriageInput['send'], fields: string]>([
    [undefined, 'assigneeIds,labels,priority,reporterUserId,source'],
    [['labels', 'source'], 'labels,source'],
    [[], ''],
  ])('are the texts, the time, and the listed fields: %j', (send, fields) => {
    const { decide: decideOn } = createTriage({ triage: [rule()], send, users: { jira: { ann: 'u1' } } });
    const full = { labels: ['a'], priority: 'high', author: 'ann', assignees: ['ann'], createdAt: '2026-01-31T00:00Z' };
    const decision = decideOn(workItem(full), 'main', 0);
    const task = decision.outcome === 'create' ? decision.task : {};
    const { kind, title, description, reportedAt, ...others } = task as NewTask;
    expect({ kind, title, description }).toEqual({ kind: 'bug', title: 'An issue', description: 'Source: jira ENG-1' });
    expect(reportedAt).toBe('2026-01-31T00:00:00.000Z');
    expect(Object.keys(others).toSorted().join()).toBe(fields);
  });
});

describe('the reporter is the workspace user of the author', () => {
  const users = { main: { a: 'u1' }, jira: { a: 'u2', b: 'u3' }, email: { 'C@x.example': 'u4' } };
  const { decide: decideWith } = createTriage({ triage: [rule()], users });
  const reporterOf = (author: string | null) => {
    const item = workItem({ author, emails: { c: 'c@X.example', d: 'd@x' } });
    const decision = decideWith(item, 'main', 0);
    return decision.outcome === 'create' ? decision.task.reporterUserId : decision.outcome;
  };

  it.each([
    ['a', 'u1'],
    ['B', 'u3'],
    ['c', 'u4'],
    ['d', undefined],
    ['hasOwnProperty', undefined],
  ])('%j: %j', (author, expected) => {
    expect(reporterOf(author)).toBe(expected);
  });
});
