import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { createLogger } from '../../../../src/platform/observe/pino-logger.ts';
import { createScrubber } from '../../../../src/platform/observe/scrubber.ts';

function open() {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const scrubber = createScrubber(['a-secret-of-sixteen']);
  return { lines, logger: createLogger({ level: 'info', scrubber, destination, isPretty: true }) };
}

test('a person reads time, level, message, fields, and what to do', () => {
  const { lines, logger } = open();
  const error = new SyncError('unreachable', 'nobody answers', { hint: 'Look at the network.' });
  logger.child({ workspace: 'demo' }).warn({ unit: 'acme/app', deliveries: [1, 2], error }, 'poll failed');
  const [time, ...rest] = stripVTControlCharacters(lines.join('')).split(' ');
  expect(time).toMatch(/^\d\d:\d\d:\d\d\.\d{3}$/);
  expect(rest.join(' ')).toBe(
    'WARN  poll failed  workspace=demo  unit=acme/app  deliveries=[1,2]  unreachable: nobody answers\n' +
      '             Look at the network.\n',
  );
});

test('nothing in a line acts on the terminal, and no secret is in it', () => {
  const { lines, logger } = open();
  logger.info({ title: 'a\u001b[2Jb\u202e\nc a-secret-of-sixteen' }, 'said \u001b[31m');
  const text = stripVTControlCharacters(lines.join(''));
  for (const acting of ['\u001b[2J', '\u001b[31m', '\u202e', 'a-secret']) expect(lines.join('')).not.toContain(acting);
  expect(text.split('\n')).toHaveLength(2);
});
