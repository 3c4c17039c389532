import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { asTyped, helpAsTyped, ownCommandOf } from '../../../../src/platform/lib/own-command.ts';
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

it('stands in the examples of help', () => {
  const help =
    'A line\n  worksync does it.\nExample: worksync wait\n         worksync wait --for ready\n         source <(worksync x)';
  expect(helpAsTyped(help, CLONE)).toBe(
    `A line\n  worksync does it.\nExample: ${CLONE} wait\n         ${CLONE} wait --for ready\n         source <(${CLONE} x)`,
  );
});
