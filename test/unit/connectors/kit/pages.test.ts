import { expect, test } from 'vitest';
import { countedPagesOf, pagesOf } from '../../../../src/connectors/kit/pages.ts';

const all = async <Element>(pages: AsyncGenerator<readonly Element[]>) => (await Array.fromAsync(pages)).flat();

test('a list that leads in a circle ends with an error that names it', async () => {
  const names = ['b', 'c', 'b'];
  const pages = pagesOf('GET /projects', async (page) => ({
    found: [page ?? 'a'],
    next: page === 'b' ? 'c' : (names[0] as string),
  }));
  await expect(all(pages)).rejects.toMatchObject({
    code: 'list_endless',
    message: expect.stringContaining('GET /projects'),
  });
});

test('a list that ignores where a page begins ends with an error', async () => {
  let asked = 0;
  const pages = countedPagesOf('GET /projects', async () => ({ found: [asked++], isLast: false }));
  await expect(all(pages)).rejects.toMatchObject({ code: 'list_endless' });
  expect(asked).toBe(1_000);
});

test('a list is read to its end', async () => {
  const pages = countedPagesOf('GET /projects', async (seen) => ({ found: [seen, seen + 1], isLast: seen === 4 }));
  expect(await all(pages)).toEqual([0, 1, 2, 3, 4, 5]);
});
