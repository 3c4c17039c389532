import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { lateRequest } from '../support/postgres/replicas/late-request.ts';
import { ROWS } from '../support/postgres/replicas/rows.ts';
import { figuresOf, pageOf, type RowFigures } from '../support/postgres/replicas/table.ts';

/** Three replicas under load, each row with a cluster of its own. With `-u` what was run is written into the table. */

const TABLE = join(import.meta.dirname, '../replica-faults.md');

describe('the matrix of faults', () => {
  const figures: RowFigures[] = [];

  afterAll(() => {
    const { snapshotState } = expect.getState() as unknown as { snapshotState?: { _updateSnapshot?: string } };
    if (snapshotState?._updateSnapshot !== 'all') return;
    const before = existsSync(TABLE) ? readFileSync(TABLE, 'utf8') : '';
    const order = ROWS.map(({ what }) => what);
    writeFileSync(TABLE, pageOf(before, order, figures));
  });

  for (const row of ROWS)
    it(`${row.what}`, async () => {
      const outcome = await figuresOf(row);
      figures.push(outcome);
      expect(outcome).toMatchObject({ lost: 0, doubled: 0, refused: 0, died: [] });
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
