import { expect, test } from 'vitest';
import { countedPagesOf, pagesOf } from '../../../../src/connectors/kit/pages.ts';

const all = async <Element>(pages: AsyncGenerator<readonly Element[]>) => (await Array.fromAsync(pages)).flat();

test('pagesOf rejects a list that leads in a circle, and names it', async () => {
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

test('countedPagesOf rejects a list that ignores the offset', async () => {
  let requests = 0;
  const pages = countedPagesOf('GET /projects', async () => ({ found: [requests++], isLast: false }));
  await expect(all(pages)).rejects.toMatchObject({ code: 'list_endless' });
  expect(requests).toBe(1_000);
});

test('countedPagesOf reads a list to its end', async () => {
  const pages = countedPagesOf('GET /projects', async (offset) => ({
    found: [offset, offset + 1],
    isLast: offset === 4,
  }));
  expect(await all(pages)).toEqual([0, 1, 2, 3, 4, 5]);
});
