import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { judgeFileSystem } from '../../../../src/admin/check-facts.ts';
import { joinApart, keepApart, TooMuch } from '../../../../src/platform/lib/json-apart.ts';
import { identifiedOnly, idText, namesIn, timeText } from '../../../../src/platform/lib/lenient.ts';
import { nameOfShared, sharedFileSystemOf } from '../../../../src/platform/lib/network-file-system.ts';
import {
  asTyped,
  helpAsTyped,
  ofWorkspace,
  ownCommandOf,
  placeFlagsOf,
} from '../../../../src/platform/lib/own-command.ts';
import {
  extendTrail,
  MOST_EMPTY,
  MOST_PAGES,
  NO_PAGES,
  type TrailedPage,
} from '../../../../src/platform/lib/page-trail.ts';
import { keep, type Shape } from '../../../../src/platform/lib/shape.ts';
import { escapePattern, withoutEnd, withStorableTexts } from '../../../../src/platform/lib/text.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';

describe('the text without its end', () => {
  it.each([
    ['a/', '/', 'a'],
    ['/a//', '/', '/a'],
    ['a.b.,', '.,', 'a.b'],
    ['//', '/', ''],
    ['', '/', ''],
    ['a', '/', 'a'],
  ])('%s without %s', (text, signs, expected) => expect(withoutEnd(text, signs)).toBe(expected));
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

  it('name no prototype', () => {
    const named = withStorableTexts(JSON.parse('{"__proto__":"a\\u0000"}') as object);
    expect([Object.entries(named), Object.getPrototypeOf(named)]).toEqual([
      [['__proto__', 'a\ufffd']],
      Object.prototype,
    ]);
  });
});

it.each([
  ['tsk_1', 'tsk_1'],
  [12, '12'],
  ['', undefined],
  [1.5, undefined],
  [null, undefined],
  [{ id: 'x' }, undefined],
])('reads %j as the id %j', (value, id) => {
  expect(idText(value)).toBe(id);
});

it.each([
  ['2026-01-05T09:00:00Z', '2026-01-05T09:00:00Z'],
  [1_767_603_600, '2026-01-05T09:00:00.000Z'],
  [1_767_603_600_000, '2026-01-05T09:00:00.000Z'],
  [Number.MAX_VALUE, null],
  [true, null],
  [undefined, null],
])('reads %j as the time %j', (value, time) => {
  expect(timeText(value)).toBe(time);
});

it('reads names of labels that are objects, and drops elements without one', () => {
  const labels = ['a', { name: 'b' }, { title: 'c' }, { label: 'd', name: 5 }, { id: 7 }, 8, null];
  expect(namesIn(labels)).toEqual(['a', 'b', 'c', 'd']);
  expect(namesIn('a')).toEqual([]);
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

  it('stands in texts for people, and neither in prose nor in JSON', () => {
    const text = '"worksync trial" is checked: "worksync check" says more; run "worksync held release".';
    expect(asTyped(text, 'worksync')).toBe(text);
    expect(asTyped(text, CLONE)).toBe(
      `"worksync trial" is checked: "${CLONE} check" says more; run "${CLONE} held release".`,
    );
    expect(asTyped('Start the daemon: "worksync run". Or "worksync run --port 1".', CLONE)).toBe(
      `Start the daemon: "npm start". Or "${CLONE} run --port 1".`,
    );
    const json = JSON.stringify({ command: 'worksync check', text });
    expect(asTyped(`${json}\n${json}`, CLONE)).toBe(`${json}\n${json}`);
  });

  it('adds --data and --config to commands that accept them', () => {
    const place = placeFlagsOf([
      'node',
      'worksync',
      'run',
      '--data',
      '/srv/my data',
      '--port',
      '1',
      '--config=/etc/sync',
    ]);
    expect(place).toEqual(["--data '/srv/my data'", '--config /etc/sync']);
    const text =
      'Run "worksync login", "worksync init --name team" or "worksync plan --config FILE"; then "worksync run".';
    expect(asTyped(text, 'worksync', ['--data x', '--config y'])).toBe(
      'Run "worksync login --data x --config y", "worksync init --name team" or "worksync plan --config FILE --data x"; then "worksync run --data x --config y".',
    );
    expect(asTyped('"worksync run" or "worksync --help"', CLONE, ['--data x'])).toBe(
      `"npm start -- --data x" or "${CLONE} --help"`,
    );
    expect(placeFlagsOf(['node', 'worksync', 'run', '--data'])).toEqual([]);
    expect(placeFlagsOf('node worksync login --workspace a b --data x --workspace=c'.split(' '))).toEqual(['--data x']);
  });

  it('names the workspace in commands of one workspace, if it was named or there are several', () => {
    const text = 'Run "worksync held release --refused", then "worksync status".';
    const complete = 'Run "worksync held release --refused --workspace team", then "worksync status".';
    expect(asTyped(text, 'worksync', placeFlagsOf(['worksync', 'links', '--workspace', 'team']))).toBe(complete);
    expect([ofWorkspace(text, 'team'), ofWorkspace(text, undefined)]).toEqual([complete, text]);
    expect(ofWorkspace(complete, 'other')).toBe(complete);
  });

  it('stands in the examples of help', () => {
    const help =
      'A line\n  worksync does it.\nExample: worksync wait\n         worksync wait --for ready\n         source <(worksync x)';
    expect(helpAsTyped(help, CLONE)).toBe(
      `A line\n  worksync does it.\nExample: ${CLONE} wait\n         ${CLONE} wait --for ready\n         source <(${CLONE} x)`,
    );
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
    [0, 2],
    [0, 1_000],
    [5, 1],
    [500, 3],
  ])('finds a circle behind %i pages that is %i pages long', (before, length) => {
    const { kind, pages } = follow((count) => ({
      next: `${count < before ? count : before + ((count - before) % length)}`,
    }));
    expect(kind).toBe('circle');
    expect(pages).toBeLessThanOrEqual(3 * (before + length) + 2);
  });

  test('lets a walk end that has no more pages than the bound', () => {
    expect(follow((count) => (count < MOST_PAGES - 1 ? { next: `${count}` } : {}))).toMatchObject({ kind: undefined });
    expect(follow((count) => ({ next: `${count}` }))).toMatchObject({ kind: 'long', pages: MOST_PAGES });
    expect(follow((count) => ({ next: `${count}` }), 7)).toMatchObject({ kind: 'long', pages: 7 });
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

  it('is what is long: texts, and parts that nobody looks into', () => {
    const value = { a: LONG, b: { a: Array.from({ length: 600 }, () => 1), c: { d: 'short' } } };
    expect(keepApart(value, SHAPE)).toEqual({
      a: new TextEncoder().encode(JSON.stringify(LONG)),
      b: { a: new TextEncoder().encode(JSON.stringify(value.b.a)), c: { d: 'short' } },
    });
  });
});

it.each<[string, unknown]>([
  ['numbers', Array.from({ length: 600_000 }, (_, at) => at)],
  ['objects', Array.from({ length: 600_000 }, () => ({}))],
  ['short parts', Array.from({ length: 2_000 }, () => ({ a: Array.from({ length: 400 }, () => 1) }))],
  ['short texts', Array.from({ length: 20_000 }, () => ({ a: 'x'.repeat(1_000) }))],
])('%s without end are refused: handing them on would take too long', (_name, value) => {
  expect(() => keepApart(value, SHAPE)).toThrow(TooMuch);
});

it.each([
  ['NFS', 0x6969],
  ['CIFS', 0xff534d42],
  ['CIFS, as a number with a sign', -11_317_950],
  ['SMB', 0xfe534d42],
  ['9P', 0x01021997],
  ['FUSE', 0x65735546],
])('%s is shared by machines: check warns', (name, type) => {
  const shared = nameOfShared(type);
  expect(shared).toContain(name.split(',')[0]);
  expect(judgeFileSystem('/data', shared)).toMatchObject([
    {
      level: 'warning',
      subject: 'disk',
      message: expect.stringContaining('/data'),
      hint: expect.stringContaining('PostgreSQL'),
    },
  ]);
});

it.each([
  ['ext4', 0xef53],
  ['XFS', 0x58465342],
  ['Btrfs', 0x9123683e],
  ['tmpfs', 0x01021994],
  ['overlayfs', 0x794c7630],
  ['ZFS', 0x2fc12fc1],
])('%s is local', (_name, type) => {
  expect(nameOfShared(type)).toBeUndefined();
  expect(judgeFileSystem('/data', nameOfShared(type))).toEqual([]);
});

it('says nothing of a folder that is not there, or is local', () => {
  expect(sharedFileSystemOf('/there/is/no/such/folder')).toBeUndefined();
  expect(() => sharedFileSystemOf(tmpdir())).not.toThrow();
});
