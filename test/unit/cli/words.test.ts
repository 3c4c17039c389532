import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { main } from '../../../src/cli/program.ts';
import { reportError } from '../../../src/cli/report-error.ts';
import { print, say } from '../../../src/cli/setting.ts';
import { safeOutput } from '../../../src/cli/words.ts';
import { show } from '../../../src/cli/workspace-command.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';

const HOSTILE = '\u001b[31m##vso[task.setvariable variable=a]b ##[group]c \u009b0K\u202e ::set-output name=d::e';

/** What a command writes to both streams. */
async function written(work: () => unknown): Promise<string> {
  let text = '';
  const take = (piece: unknown) => {
    text += String(piece);
    return true;
  };
  const spies = [process.stdout, process.stderr].map((stream) => vi.spyOn(stream, 'write').mockImplementation(take));
  try {
    await work();
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  return text;
}

const MODES = {
  text: () => print(`title ${HOSTILE}`),
  'lines that begin like a command': () => print('::set-output name=a::b\n  ::stop-commands::c'),
  JSON: () => show({ text: '', json: [{ title: HOSTILE, other: '::add-mask::x' }] }, { json: true }),
  progress: () => say(HOSTILE),
  'an error': () => reportError(new SyncError('not_found', `no item ${HOSTILE}`), (text) => text),
  'an unknown command': () => main(['node', 'worksync', HOSTILE], '0', createScrubber([])),
  'an unknown option': () => main(['node', 'worksync', 'status', `--${HOSTILE}`], '0', createScrubber([])),
};

it.each(Object.entries(MODES))('%s commands neither a terminal nor a CI service', async (_mode, work) => {
  const text = await written(work);
  expect(text).not.toBe('');
  expect(text).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]|##(?:vso)?\[|^\s*::/mu);
});

it('keeps the value of JSON', () => {
  const value = { title: HOSTILE, list: ['a::b', '####'], empty: {} };
  const line = safeOutput(JSON.stringify(value));
  expect(JSON.parse(line)).toEqual(value);
  expect(line).not.toMatch(/::|##/);
});

it('leaves texts of ours as they are', () => {
  const text = 'BUG-1\topen  12:30:00\n  # Title\n  https://example.com/#a::b';
  expect(safeOutput(text)).toBe(text);
});

it('all commands print through it', () => {
  const folder = join(import.meta.dirname, '../../../src/cli');
  const writers = readdirSync(folder).filter((file) => {
    const source = readFileSync(join(folder, file), 'utf8');
    const calls = source.match(/process\.std(?:out|err)\.write\((?!.*safeOutput)[^)]*/g) ?? [];
    return calls.some((call) => !call.endsWith('write(clear'));
  });
  // `printAsIs`, whose callers say why.
  expect(writers).toEqual(['setting.ts']);
});
