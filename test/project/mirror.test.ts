import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { expect, it } from 'vitest';

/** Who knows a file of `src` finds its tests without a search, and the other way round. */

const TOP = join(import.meta.dirname, '../..');
const FILES = readdirSync(join(TOP, 'test/unit'), { recursive: true, encoding: 'utf8' }).filter((path) =>
  path.endsWith('.ts'),
);

/** `store/inbox.test.ts`, `store/inbox.order.test.ts` → `store/inbox` */
function subjectOf(path: string): string {
  return join(dirname(path), basename(path).split('.')[0] as string);
}

/** A file of `src`; or, by the name of its folder, several files of it together: `lib/lib.helpers.test.ts`. */
function isThere(subject: string): boolean {
  const isRoom = basename(subject) === basename(dirname(subject));
  return existsSync(join(TOP, 'src', `${subject}.ts`)) || (isRoom && existsSync(join(TOP, 'src', dirname(subject))));
}

it('each test of test/unit stands where the file stands that it tests', () => {
  expect(FILES.length).toBeGreaterThan(100);
  expect(FILES.filter((path) => !path.endsWith('.test.ts') || !isThere(subjectOf(path)))).toEqual([]);
});
