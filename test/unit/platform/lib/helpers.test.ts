import { createHash, createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { backoff, createWakeSignal, type Random, sleep, systemRandom } from '../../../../src/platform/lib/clock.ts';
import { doAll, yieldToEventLoop } from '../../../../src/platform/lib/concurrency.ts';
import { hmacOf, sha256Of } from '../../../../src/platform/lib/digest.ts';
import { ownCommandOf } from '../../../../src/platform/lib/own-program.ts';
import { extendTrail, MOST_EMPTY, NO_PAGES, type TrailedPage } from '../../../../src/platform/lib/page-trail.ts';
import {
  identifiedOnly,
  idText,
  joinApart,
  keep,
  keepApart,
  type Shape,
  TooMuch,
  timeText,
} from '../../../../src/platform/lib/shape.ts';
import { createTransitionLogger, type LogFields, silentLogger } from '../../../../src/platform/lib/telemetry.ts';
import { escapePattern, withStorableTexts } from '../../../../src/platform/lib/text.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';

/** Whether the promise is settled once everything that is ready has run. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await yieldToEventLoop();
  return done;
}

describe('backoff', () => {
  const fixed = (value: number): Random => ({ ...systemRandom(), float: () => value });
  const ALMOST_ONE = 1 - Number.EPSILON / 2;

  it.each<[attempt: number, ceiling: number, limits?: readonly [base: number, cap: number]]>([
    [0, 1_000],
    [9, 300_000],
    [3, 4_000, [500, 5_000]],
    [4, 5_000, [500, 5_000]],
  ])('waits in attempt %i at most %i ms, with the limits %j', (attempt, ceiling, limits = [1_000, 300_000]) => {
    expect(backoff(fixed(ALMOST_ONE), attempt, ...limits)).toBe(ceiling);
    expect(backoff(fixed(0.5), attempt, ...limits)).toBe(ceiling / 2);
  });

  it('is whole milliseconds between 1 and the ceiling, whatever chance says', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: ALMOST_ONE, noNaN: true }), fc.nat({ max: 60 }), (chance, attempt) => {
        const pause = backoff(fixed(chance), attempt, 1_000, 60_000);
        expect(Number.isInteger(pause) && pause >= 1 && pause <= Math.min(60_000, 1_000 * 2 ** attempt)).toBe(true);
      }),
    );
  });
});

describe('a wake signal', () => {
  it('wakes the process that waits, and does not remember that', async () => {
    const { wait, notify } = createWakeSignal();
    const next = wait();
    expect(await isDone(next)).toBe(false);
    notify();
    expect(await isDone(next)).toBe(true);
    expect(await isDone(wait())).toBe(false);
  });

  it('remembers notifications that nothing waited for as one', async () => {
    const { wait, notify } = createWakeSignal();
    notify();
    notify();
    expect([await isDone(wait()), await isDone(wait())]).toEqual([true, false]);
  });
});

describe('sleep', () => {
  it('ends at once when it is aborted, and does not begin if it was aborted before; no timer stays', async () => {
    const clock = createTravellingClock();
    const controller = new AbortController();
    const slept = sleep(clock, 1_000, controller.signal);
    expect(clock.pending).toBe(1);
    controller.abort();
    expect([await isDone(slept), clock.pending]).toEqual([true, 0]);
    expect([await isDone(sleep(clock, 1_000, controller.signal)), clock.pending]).toEqual([true, 0]);
  });
});

test('each step is done, in order, whatever failed before it; one failure is thrown as it is', async () => {
  const done: number[] = [];
  const step = (number: number) => () => void done.push(number);
  const failing = (message: string) => () => Promise.reject(new Error(message));
  await expect(doAll([step(1), failing('one'), step(2), failing('two'), step(3)])).rejects.toMatchObject({
    errors: [{ message: 'one' }, { message: 'two' }],
  });
  expect(done).toEqual([1, 2, 3]);
  await expect(doAll([failing('alone')])).rejects.toThrow(/^alone$/);
  await doAll([() => 1]);
});

test('a failure is logged once for each reason, and its end once', () => {
  const lines: string[] = [];
  const line = (level: string) => (_fields: LogFields, message: string) => void lines.push(`${level}: ${message}`);
  const logger = { ...silentLogger, warn: line('warn'), info: line('info') };
  const transitions = createTransitionLogger(logger, 'warn', { failed: 'it fails', again: 'it succeeds again' });
  transitions.succeeded();
  for (const reason of ['away', 'away', 'refused', 'refused']) transitions.failed(new Error(reason));
  transitions.succeeded();
  transitions.succeeded();
  transitions.failed(new Error('refused'));
  expect(lines).toEqual(['warn: it fails', 'warn: it fails', 'info: it succeeds again', 'warn: it fails']);
});

/** Small and large texts are digested in different ways, also as part of a larger buffer. */
test.each([0, 1, 1024 * 1024, 1024 * 1024 + 1, 3_000_000])('digests %i bytes as Node does', async (length) => {
  const body = Buffer.alloc(length + 10, 'some bytes ').subarray(5, 5 + length);
  const key = Buffer.from('a key of the test');
  expect((await hmacOf(body, key)).toString('hex')).toBe(createHmac('sha256', key).update(body).digest('hex'));
  expect(await sha256Of(body)).toBe(createHash('sha256').update(body).digest('hex'));
});

it('a text as a pattern finds itself and nothing else', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (text, other) => {
      const pattern = new RegExp(`^(?:${escapePattern(text)})$`, 'u');
      return pattern.test(text) && pattern.test(other) === (text === other);
    }),
  );
  expect(new RegExp(escapePattern('^$\\.*+?()[]{}|/-'), 'u').test('^$\\.*+?()[]{}|/-')).toBe(true);
});

describe('texts that a database keeps', () => {
  it('have no sign of code 0 and no half of a pair, in names of fields too', () => {
    const given = { emails: { 'a\0b': 'x\ud800', plain: 'y' }, list: ['\udc00', { z: 1 }], none: null };
    const kept = { emails: { 'a\ufffdb': 'x\ufffd', plain: 'y' }, list: ['\ufffd', { z: 1 }], none: null };
    expect(withStorableTexts(given)).toEqual(kept);
  });
});

it.each([
  ['tsk_1', 'tsk_1'],
  ['', undefined],
  [1.5, undefined],
  [null, undefined],
  [{ id: 'x' }, undefined],
])('reads %j as the id %j', (value, id) => {
  expect(idText(value)).toBe(id);
});

it.each([
  ['2026-01-05T09:00:00Z', '2026-01-05T09:00:00Z'],
  [1_767_603_600_000, '2026-01-05T09:00:00.000Z'],
  [Number.MAX_VALUE, null],
  [true, null],
  [undefined, null],
])('reads %j as the time %j', (value, time) => {
  expect(timeText(value)).toBe(time);
});

test('a list loses elements without an id, and counts them over several readings', () => {
  const list = { tasks: [{ taskId: 'a' }, { taskId: null }, 7, { taskId: 3 }], more: 1 };
  const once = identifiedOnly(list, 'tasks', ['taskId']);
  expect(once).toEqual({ tasks: [{ taskId: 'a' }, { taskId: 3 }], more: 1, unreadable: 2 });
  expect(identifiedOnly(once, 'tasks', ['taskId'])).toBe(once);
  expect(identifiedOnly({ ...(once as object), tasks: [{}] }, 'tasks', ['taskId'])).toMatchObject({ unreadable: 3 });
  expect(identifiedOnly({ tasks: 'none' }, 'tasks', ['taskId'])).toEqual({ tasks: 'none' });
});

describe('the own command', () => {
  const CLONE = 'npm run -s worksync --';

  it('is a script of npm in a clone, and the program itself in a package', () => {
    const folder = folderOfTest('own');
    writeFileSync(join(folder, 'package.json'), '{}');
    expect(ownCommandOf(folder)).toBe('worksync');
    writeFileSync(join(folder, 'package-lock.json'), '{}');
    expect(ownCommandOf(folder)).toBe(CLONE);
  });
});

/** Reads pages until the trail says that the walk must stop. */
function follow(pageAt: (count: number) => TrailedPage, most?: number) {
  let trail = NO_PAGES;
  for (let count = 0; ; count++) {
    const page = pageAt(count);
    const extended = extendTrail(trail, page, most);
    trail = extended.trail;
    if (extended.fault || page.next === undefined) return { kind: extended.fault?.kind, pages: trail.pages, trail };
  }
}

describe('a trail of pages', () => {
  test.each([
    [0, 1],
    [0, 1_000],
    [5, 1],
  ])('finds a circle behind %i pages that is %i pages long', (before, length) => {
    const { kind, pages } = follow((count) => ({
      next: `${count < before ? count : before + ((count - before) % length)}`,
    }));
    expect(kind).toBe('circle');
    expect(pages).toBeLessThanOrEqual(3 * (before + length) + 2);
  });

  test('stops at empty pages in a row, and not at those between others', () => {
    expect(follow((count) => ({ next: `${count}`, isEmpty: count > 3 }))).toMatchObject({
      kind: 'empty',
      pages: MOST_EMPTY + 4,
      trail: { empty: 0 },
    });
    expect(
      follow((count) => ({ next: count < 999 ? `${count}` : undefined, isEmpty: count % 50 > 0 })).kind,
    ).toBeUndefined();
  });
});

const LONG = 'a "long" text\n\u2028 \ud83d\ude00 '.repeat(200);
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(fc.string(), fc.constant(LONG), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean()),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', '"\n'), tie('value'), { maxKeys: 4 }),
  ),
})).value;
const SHAPE: Shape = { a: true, b: { a: true, c: { d: true } }, c: { b: true } };

/** Writes the value as JSON and reads it again. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('what is set apart', () => {
  it('takes its place again, and nothing else has changed', () => {
    fc.assert(
      fc.property(values, fc.constantFrom<Shape | true>(SHAPE, true), (value, shape) => {
        const wanted = shape === true ? value : keep(value, shape);
        expect(JSON.parse(joinApart(keepApart(value, shape)).toString())).toEqual(plain(wanted));
      }),
    );
  });
});

it.each<[string, unknown]>([
  ['numbers', Array.from({ length: 600_000 }, (_, at) => at)],
  ['short texts', Array.from({ length: 20_000 }, () => ({ a: 'x'.repeat(1_000) }))],
])('%s without end are refused: handing them on would take too long', (_name, value) => {
  expect(() => keepApart(value, SHAPE)).toThrow(TooMuch);
});
