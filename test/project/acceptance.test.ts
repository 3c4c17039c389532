import { expect, it } from 'vitest';
import { ACCEPTANCE, type Acceptance } from '../acceptance.ts';
import { faultsOfClaims, isThere, wordsOf } from '../support/proofs.ts';

/** The list of what worksync promises to operators: what proves each row exists, and the page says it as it is. */

function row({ id, promise, proofs, left }: Acceptance): string {
  const state = left === undefined ? 'proved' : `left: ${left}`;
  return `| ${[id, promise, wordsOf(proofs), state].join(' | ')} |`;
}

const PAGE = `# What worksync promises to who runs it

Made from [\`acceptance.ts\`](acceptance.ts) by \`npm test -- test/project/acceptance.test.ts -u\`; the tests run with \`.ci/run\`.

|     | promise | proved by | state |
| --- | ------- | --------- | ----- |
${ACCEPTANCE.map(row).join('\n')}
`;

it('names only tests and files that exist, and says what is left where nothing proves a row', () => {
  expect(faultsOfClaims(ACCEPTANCE)).toEqual([]);
  expect(isThere(['test/project/acceptance.test.ts', 'a test that nobody has written'.toUpperCase()])).toBe(false);
});

it('is the page', async () => {
  await expect(PAGE).toMatchFileSnapshot('../acceptance.md');
});
