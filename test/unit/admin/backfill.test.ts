import { expect, it } from 'vitest';
import { canBackfill, startBackfill } from '../../../src/admin/backfill.ts';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import { systemClock } from '../../../src/platform/lib/clock.ts';
import type { ActiveConnection } from '../../../src/sync/intake/active-connection.ts';

function connectionAt(apiUrl: string): ActiveConnection {
  return { name: 'github', options: { apiUrl }, connection: { history: () => undefined } } as never;
}

it('refuses a backfill of a connection whose address has no server', async () => {
  expect(canBackfill(connectionAt('https://api.example.com'))).toBe(true);
  const demo = connectionAt('https://github.invalid/api');
  expect(canBackfill(demo)).toBe(false);
  const workspace = { connections: [demo] } as unknown as OpenWorkspace;
  await expect(startBackfill(workspace, { connection: 'github', since: null }, systemClock())).rejects.toMatchObject({
    code: 'usage',
    message: 'github takes webhooks only: https://github.invalid/api is an address without a server',
  });
});
