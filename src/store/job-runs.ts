import type { RunMemory } from '../lib/scheduler.ts';
import type { Store } from './database.ts';

/** Keeps what the last runs of scheduled jobs count from. */
export function jobRuns({ query, commit }: Store): RunMemory {
  return {
    async read() {
      const rows = await query.selectFrom('job_runs').selectAll().execute();
      return new Map(rows.map(({ job, last_at }) => [job, last_at]));
    },
    replace: (runs) =>
      commit(async (transaction) => {
        await transaction.deleteFrom('job_runs').execute();
        const rows = [...runs].map(([job, last_at]) => ({ job, last_at }));
        if (rows.length > 0) await transaction.insertInto('job_runs').values(rows).execute();
      }),
    async note(job, last_at) {
      await query
        .insertInto('job_runs')
        .values({ job, last_at })
        .onConflict((conflict) => conflict.column('job').doUpdateSet({ last_at }))
        .execute();
    },
  };
}
