import { afterEach, beforeEach, expect, it } from 'vitest';
import { createTokenBook, createTokens } from '../../../src/gateway/token-book.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';
import { withLateAnswers } from '../../support/fakes/late-answers.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';

let store: OpenedStore;

beforeEach(async () => {
  store = await openStore({ file: ':memory:' });
});
afterEach(async () => {
  await store.close();
});

it('does not know a token again that was revoked while an earlier read was under way', async () => {
  const late = withLateAnswers(store.database, (number) => number === 1);
  const others = createTokenBook(late.query);
  const book = createTokenBook(store.database);
  const tokens = createTokens({ store, book, clock: createTravellingClock(), random: systemRandom() });
  const { id, secret } = await tokens.create('for the bot');
  const earlier = others.reread();
  await tokens.revoke(id);
  await others.reread();
  expect(others.recall(secret)).toBeUndefined();
  late.release();
  await earlier;
  expect(others.recall(secret)).toBeUndefined();
  expect(await others.withId(id)).toBeUndefined();
});
