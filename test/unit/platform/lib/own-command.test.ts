import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { asTyped, helpAsTyped, ownCommandOf, placeFlagsOf } from '../../../../src/platform/lib/own-command.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';

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
});

it('stands in the examples of help', () => {
  const help =
    'A line\n  worksync does it.\nExample: worksync wait\n         worksync wait --for ready\n         source <(worksync x)';
  expect(helpAsTyped(help, CLONE)).toBe(
    `A line\n  worksync does it.\nExample: ${CLONE} wait\n         ${CLONE} wait --for ready\n         source <(${CLONE} x)`,
  );
});
