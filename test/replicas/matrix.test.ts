import { describe, expect, it } from 'vitest';
import { lateRequest } from '../support/postgres/replicas/late-request.ts';
import { figuresOf } from '../support/postgres/replicas/row-figures.ts';
import { ROWS } from '../support/postgres/replicas/rows.ts';

/** Three replicas under load, each row with a cluster of its own. The report shows how long each took to recover. */
describe('three replicas lose and double nothing, and keep the quota, when', () => {
  for (const row of ROWS)
    it(`${row.what}`, async ({ annotate }) => {
      const { times, died, ...outcome } = await figuresOf(row);
      await annotate(
        Object.entries(times)
          .map(([what, time]) => `${what} after ${Math.round(time)} ms`)
          .join(', '),
      );
      expect({ ...outcome, died }).toMatchObject({ lost: 0, doubled: 0, refused: 0, died: [] });
      expect(outcome.mostInMinute).toBeLessThanOrEqual(40);
      expect(outcome.mostInWindow).toBeLessThanOrEqual(200);
    });
});

it('sends at most one request too late where a process stands still between its last look and the write', async () => {
  const { late, ...outcome } = await lateRequest();
  // None where it had to connect first: it finds its leases over before it can write.
  expect(late).toBeLessThanOrEqual(1);
  expect(outcome).toMatchObject({ lost: 0, doubled: 0, refused: 0 });
});
