import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { scriptFor } from '../../../src/cli/completion.ts';
import { programOf } from '../../../src/cli/program.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';

const program = await programOf('completion', { version: 'test', scrubber: createScrubber() }, () => undefined);

/** Returns the completions of bash for the last word. */
function offered(...words: readonly string[]): string[] {
  const typed = ['worksync', ...words].map((word) => `'${word}'`).join(' ');
  const ask = `COMP_WORDS=(${typed}); COMP_CWORD=${words.length}; _worksync; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const said = execFileSync('bash', ['-c', `${scriptFor('bash', program)}\n${ask}`], { encoding: 'utf8' });
  return said.split('\n').filter((line) => line !== '');
}

it.each([
  [
    ['links', ''],
    ['list', 'add', 'remove', 'explain', 'release-status', 'release-field', 'unfinished', '-h', '--help'],
  ],
  [['gateway', 'token', 're'], ['revoke']],
  [
    ['api', 'createA'],
    ['createApiKey', 'createAgent'],
  ],
  // A flag of the words before changes nothing.
  [['plan', '--json', '--wo'], ['--workspace']],
  // Hidden ones are offered by nobody.
  [['plan', '--po'], []],
])('completes %j', (words, expected) => {
  expect(offered(...words)).toEqual(expected);
});
