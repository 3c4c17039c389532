import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commandsIn, comparable, firstStartIn, secondStartIn } from '../../.ci/readme/page.ts';
import { LEFT_OUT, STEPS } from '../../.ci/readme.ts';
import { withInstallLines } from '../../.ci/release.ts';

const README = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');

const isLeftOut = (command: string) => LEFT_OUT.some(([pattern]) => pattern.test(command));

it('has exactly the commands that .ci/readme.ts runs or leaves out, also after a release', () => {
  const commands = new Set(commandsIn(README));
  expect([...commands].filter((command) => !isLeftOut(command)).toSorted()).toEqual(Object.keys(STEPS).toSorted());
  const added = commandsIn(withInstallLines(README, 'acme/worksync')).filter((command) => !commands.has(command));
  expect(added).toEqual([expect.stringMatching(/^npx /), expect.stringMatching(/^docker run /)]);
  expect(added.filter((command) => !isLeftOut(command))).toEqual([]);
});

it('finds commands in blocks, in code and in quoted output', () => {
  const page = [
    '```sh',
    'npm ci && npm start   # the daemon',
    'curl localhost',
    '```',
    '',
    'Then `npm run',
    'demo`, not `npm`.',
    '',
    '```text',
    '"npm run -s worksync -- login" prints "a link".',
    '```',
  ];
  expect(commandsIn(page.join('\n'))).toEqual([
    'npm ci && npm start',
    'curl localhost',
    'npm run demo',
    'npm run -s worksync -- login',
  ]);
});

it('shows the output of the first start, from which that of the second one follows', () => {
  const first = firstStartIn(README);
  expect(first).toMatch(
    / (\d+) signed GitHub deliveries sent, \1 of them new\.\n.* this start took [1-9]\d* requests\.\n/,
  );
  expect(secondStartIn(README)).toMatch(/ 0 of them new\.\n.* this start took 0 requests\.\n/);
  expect(comparable(first.replace('link=…', 'link=a-Secret_1').replaceAll(':8080/', ':41234/'), 41_234)).toBe(first);
});
