import { expect, test } from 'vitest';
import type { Redelivery } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { forgetOtherRedeliveryCursors, redeliveryCursor } from '../../../../src/store/redeliveries.ts';
import { createHookWatch } from '../../../../src/sync/intake/hook-watch.ts';
import { createPauses } from '../../../../src/sync/intake/pauses.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { activeWith, openTestStore } from '../../../support/harness/intake.ts';

const { signal } = new AbortController();

async function bench(answers: readonly Redelivery[]) {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const cursors: (string | undefined)[] = [];
  const warnings: LogFields[] = [];
  const rest = [...answers];
  const active = activeWith({
    webhookUrl: 'https://sync.example/webhooks/main/notes',
    connection: {
      redeliver: async (_url, cursor) => {
        cursors.push(cursor);
        return rest.shift() as Redelivery;
      },
    },
  });
  const logger = { ...silentLogger, warn: (fields: LogFields) => void warnings.push(fields) };
  const pauses = createPauses(clock);
  const watch = createHookWatch({ store, connections: [active], pauses, clock, logger, meter: silentMeter });
  const round = async () => watch.jobs.find(({ name }) => name === 'redeliver.notes')?.run(signal);
  return { store, cursors, warnings, round, report: () => watch.report('notes') };
}

test('continues each round where the last one ended, even after a failure', async () => {
  const failure = new SyncError('server_failed', 'HTTP 502');
  const all = await bench([
    { requested: 1, cursor: 'one' },
    { requested: 1, cursor: 'two', failure },
    { requested: 0, cursor: 'two' },
  ]);
  await all.round();
  await all.round();
  expect(all.report()).toMatchObject({ redeliveryFailure: 'server_failed: HTTP 502' });
  await all.round();
  expect(all.cursors).toEqual([undefined, 'one', 'two']);
  expect(all.report()).toMatchObject({ redeliveryFailure: null });
});

test('logs once why redelivery is not requested for every delivery', async () => {
  const cut = 'this server does not filter';
  const answers = [cut, cut, undefined, cut].map((each) => ({ requested: 0, cursor: '', cut: each }));
  const all = await bench(answers);
  for (const _ of answers) await all.round();
  expect(all.warnings.map(({ reason }) => reason)).toEqual([cut, cut]);
});

test('forgets the cursor of a connection that is no longer configured', async () => {
  const all = await bench([{ requested: 0, cursor: 'one' }]);
  await all.round();
  await forgetOtherRedeliveryCursors(all.store.query, ['notes']);
  expect(await redeliveryCursor(all.store.query, 'notes')).toBe('one');
  await forgetOtherRedeliveryCursors(all.store.query, []);
  expect(await redeliveryCursor(all.store.query, 'notes')).toBeUndefined();
});
