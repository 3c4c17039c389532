import { describe, expect, it, test } from 'vitest';
import {
  afterCreationRefused,
  type CreationTrials,
  creationBody,
  creationTrials,
  disabledFields,
  noteCreationPassed,
  noteCreationRefused,
  omittedFields,
} from '../../../src/store/task-creations.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/intake.ts';

const NOW = 1_000_000_000;
const DAY = 86_400_000;
const TEXT = { title: 'a', description: 'b', reportedAt: 'c' };
const BODY = { ...TEXT, labels: ['ui'], priority: 'p1', source: 'jira:1' };
const NONE: CreationTrials = { fields: {}, without: {} };
const TRYING: CreationTrials = { ...NONE, isTrying: true };

describe('a creation leaves out', () => {
  it.each<[what: string, trials: CreationTrials, fields: readonly string[]]>([
    ['nothing while nothing was refused', NONE, []],
    ['what was refused of it', { ...NONE, without: { 'task:a': ['labels'], 'task:b': ['source'] } }, ['labels']],
    ['all but one field that never passed', TRYING, ['priority', 'source']],
    [
      'no field that passed, and all but one of the others',
      { ...TRYING, fields: { labels: { passed: true } } },
      ['source'],
    ],
    ['a field that is switched off', { ...NONE, fields: { labels: { offSince: NOW - DAY + 1 } } }, ['labels']],
    ['no field a day after it was switched off', { ...NONE, fields: { labels: { offSince: NOW - DAY } } }, []],
  ])('%s', (_what, trials, fields) => {
    expect(omittedFields(trials, 'task:a', BODY, NOW)).toEqual(fields);
  });
});

describe('a refused creation', () => {
  it.each<
    [what: string, trials: CreationTrials, body: object, without: readonly string[] | undefined, refused: object]
  >([
    ['is sent again without all optional fields', NONE, BODY, ['labels', 'priority', 'source'], {}],
    ['without any of them has a text that is refused', NONE, TEXT, undefined, {}],
    [
      'with one field that is tried leaves it out',
      TRYING,
      { ...TEXT, labels: ['x'] },
      ['labels'],
      { labels: { refused: [expect.any(String)] } },
    ],
    [
      'whose fields all passed before is sent without them, and blames none',
      { ...TRYING, fields: { labels: { passed: true } } },
      { ...TEXT, labels: ['x'] },
      ['labels'],
      { labels: { passed: true } },
    ],
  ])('%s', (_what, trials, body, without, fields) => {
    const next = afterCreationRefused(trials, 'task:a', { ...body }, NOW);
    expect(next.without['task:a']).toEqual(without);
    expect(next.fields).toEqual(fields);
  });

  it('is remembered for the last 200 creations only', () => {
    let trials = NONE;
    for (let index = 0; index < 250; index++) trials = afterCreationRefused(trials, `task:${index}`, BODY, NOW);
    expect(Object.keys(trials.without)).toHaveLength(200);
    expect(trials.without['task:249']).toBeDefined();
  });
});

test('only a field of which three different values were refused and none passed is switched off', () => {
  const refuse = (values: readonly string[], trials: CreationTrials) =>
    values.reduce((now, labels, index) => afterCreationRefused(now, `task:${index}`, { ...TEXT, labels }, NOW), trials);
  expect(disabledFields(refuse(['a', 'b', 'b', 'a'], TRYING), NOW)).toEqual([]);
  expect(disabledFields(refuse(['a', 'b', 'c'], TRYING), NOW)).toEqual(['labels']);
  expect(disabledFields(refuse(['a', 'b', 'c'], { ...TRYING, fields: { labels: { passed: true } } }), NOW)).toEqual([]);
});

/** Creates tasks on a server that refuses these fields. @returns the optional fields of each request */
async function create(query: Scope, names: readonly string[], refuses: readonly string[], now = NOW) {
  const sent: string[][] = [];
  for (const name of names) {
    for (let attempt = 0; attempt < 5; attempt++) {
      const body = await creationBody(query, name, { ...BODY, labels: [name] }, now);
      const fields = Object.keys(body).filter((field) => !(field in TEXT));
      sent.push(fields);
      if (!fields.some((field) => refuses.includes(field))) {
        await noteCreationPassed(query, name, body);
        break;
      }
      await noteCreationRefused(query, name, body, now);
    }
  }
  return sent;
}

test('fields are tried one at a time after a refusal, until each has passed or is switched off', async () => {
  const { query } = await openTestStore();
  const sent = await create(query, ['a', 'b', 'c', 'd', 'e'], ['labels']);
  expect(sent).toEqual([
    ['labels', 'priority', 'source'],
    [],
    // Labels are refused a first time, and priority is tried in their place.
    ['labels'],
    ['priority'],
    ['labels', 'priority'],
    ['priority', 'source'],
    ['labels', 'priority', 'source'],
    ['priority', 'source'],
    // Three values were refused.
    ['priority', 'source'],
  ]);
  expect(disabledFields(await creationTrials(query), NOW)).toEqual(['labels']);
  // A day later the server accepts them.
  expect(await create(query, ['f'], [], NOW + DAY)).toEqual([['labels', 'priority', 'source']]);
  expect(disabledFields(await creationTrials(query), NOW + DAY)).toEqual([]);
});

test('a server that accepts everything is never asked anything else, and nothing is stored', async () => {
  const { query } = await openTestStore();
  await create(query, ['a', 'b'], []);
  expect(await creationTrials(query)).toEqual(NONE);
});
