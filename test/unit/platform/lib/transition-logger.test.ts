import { expect, test } from 'vitest';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createTransitionLogger } from '../../../../src/platform/lib/transition-logger.ts';

test('a failure is told once for each reason, and its end once', () => {
  const lines: string[] = [];
  const line = (level: string) => (_fields: LogFields, message: string) => void lines.push(`${level}: ${message}`);
  const teller = createTransitionLogger({ ...silentLogger, warn: line('warn'), info: line('info') }, 'warn', {
    failed: 'it fails',
    again: 'it succeeds again',
  });
  teller.succeeded();
  expect(lines).toEqual([]);
  for (let count = 0; count < 3; count++) teller.failed(new Error('away'));
  expect(lines).toEqual(['warn: it fails']);
  teller.failed(new Error('refused'));
  teller.failed(new Error('refused'));
  expect(lines).toEqual(['warn: it fails', 'warn: it fails']);
  teller.succeeded();
  teller.succeeded();
  expect(lines.slice(2)).toEqual(['info: it succeeds again']);
  teller.failed(new Error('refused'));
  expect(lines.slice(3)).toEqual(['warn: it fails']);
});
