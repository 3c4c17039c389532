import { expect, it, onTestFinished } from 'vitest';
import {
  bindServerFacts,
  readServerFact,
  SERVER_FACTS,
  serverFactsOf,
  writeServerFact,
} from '../../../src/store/server-facts.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

it('forgets all facts about the server if the base address changes', async () => {
  const { query } = await openTestStore();
  const learn = async () => {
    for (const fact of SERVER_FACTS) await writeServerFact(query, fact, { fact });
  };
  const known = () => Promise.all(SERVER_FACTS.map((fact) => readServerFact(query, fact)));
  await bindServerFacts(query, 'https://one.example');
  await learn();
  await bindServerFacts(query, 'https://one.example');
  expect(await known()).toEqual(SERVER_FACTS.map((fact) => ({ fact })));
  await bindServerFacts(query, 'https://two.example');
  expect(await known()).toEqual(SERVER_FACTS.map(() => undefined));
});

it('reads the facts of several workspaces at once, and separates them', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const [one, two] = [await installation.store('one'), await installation.store('two')];
  await writeServerFact(one.query, 'marks', { source: true });
  await writeServerFact(two.query, 'records', { state: 'open' });
  const facts = await serverFactsOf(installation.query, [one.query.workspace, two.query.workspace]);
  expect(facts(one.query.workspace)).toEqual({ marks: { source: true } });
  expect(facts(two.query.workspace)).toEqual({ records: { state: 'open' } });
});
