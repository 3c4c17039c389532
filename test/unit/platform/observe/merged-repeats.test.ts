import { expect, test } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { LogFields, Logger } from '../../../../src/platform/lib/logger.ts';
import { mergingRepeats } from '../../../../src/platform/observe/merged-repeats.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

const MINUTE = 60_000;

function open() {
  const lines: string[] = [];
  const recorder = (bound: LogFields): Logger => {
    const note = (level: string) => (fields: LogFields, message: string) => {
      const { error: _, ...told } = { ...bound, ...fields };
      lines.push(`${level} ${message} ${JSON.stringify(told)}`);
    };
    return {
      ...{ debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') },
      child: (more) => recorder({ ...bound, ...more }),
    };
  };
  const clock = createTravellingClock();
  return { clock, lines, logger: mergingRepeats(recorder({}), clock) };
}

const UNREACHABLE = new SyncError('unreachable', 'nobody answers');

test('a poll that fails each minute for half an hour is four lines, and one when it is over', async () => {
  const { clock, lines, logger } = open();
  const own = logger.child({ connection: 'github' });
  for (let minute = 0; minute < 30; minute++) {
    own.warn({ unit: 'acme/app', attempts: minute, error: UNREACHABLE }, 'poll failed');
    await clock.advance(MINUTE);
  }
  const told = lines.map((line) => /"repeats":(\d+)/.exec(line)?.[1] ?? 'first');
  expect(told).toEqual(['first', '1', '4', '15']);
  expect(lines[0]).toBe('warn poll failed {"connection":"github","unit":"acme/app","attempts":0}');
  await clock.advance(11 * MINUTE);
  expect(lines.at(-1)).toMatch(/^info no longer repeated .*"repeats":29,"was":"poll failed"/);
  expect(lines).toHaveLength(5);
  own.warn({ unit: 'acme/app', attempts: 1, error: UNREACHABLE }, 'poll failed');
  expect(lines.at(-1)).toBe('warn poll failed {"connection":"github","unit":"acme/app","attempts":1}');
});

test('what is about another thing, of another code or another delivery is said each time', async () => {
  const { clock, lines, logger } = open();
  logger.warn({ unit: 'a', error: UNREACHABLE }, 'poll failed');
  logger.warn({ unit: 'b', error: UNREACHABLE }, 'poll failed');
  logger.warn({ unit: 'a', error: new SyncError('rate_limited', 'later') }, 'poll failed');
  logger.child({ workspace: 'w' }).warn({ unit: 'a', error: UNREACHABLE }, 'poll failed');
  logger.error({ unit: 'a', error: UNREACHABLE }, 'poll failed');
  for (const delivery of [1, 2]) logger.warn({ delivery }, 'delivery quarantined');
  expect(lines).toHaveLength(7);
  await clock.advance(60 * MINUTE);
  expect(lines).toHaveLength(7);
});

test('what changes in one mass, its number and its reason, makes no other warning', () => {
  const { lines, logger } = open();
  for (let held = 1; held < 80; held++)
    logger.warn({ effect: 'creation', surplus: held, reason: `${held} held` }, 'changes are held');
  logger.warn({ effect: 'removal', reason: '3 held' }, 'changes are held');
  expect(lines).toHaveLength(2);
});

test('a flood of refusals from any number of addresses is a line, and then a count', async () => {
  const { clock, lines, logger } = open();
  for (let each = 0; each < 500; each++)
    logger.warn({ connection: 'notes', code: 'signature_missing', address: `192.0.2.${each}` }, 'delivery refused');
  expect(lines).toHaveLength(1);
  await clock.advance(MINUTE);
  expect(lines).toHaveLength(2);
  expect(lines[1]).toContain('"repeats":499');
});

test('a flood of subjects is logged, and no more than a bounded number of them is remembered', async () => {
  const { clock, lines, logger } = open();
  for (let each = 0; each < 1_500; each++) logger.warn({ item: `i${each}` }, 'failed');
  for (let each = 0; each < 1_500; each++) logger.info({ item: `i${each}` }, 'fine');
  expect(lines).toHaveLength(3_000);
  logger.warn({ item: 'i1499' }, 'failed');
  expect(lines).toHaveLength(3_000);
  logger.warn({ item: 'i0' }, 'failed');
  expect(lines).toHaveLength(3_001);
  await clock.advance(20 * MINUTE);
  expect(lines.filter((line) => line.includes('no longer repeated'))).toHaveLength(1);
});
