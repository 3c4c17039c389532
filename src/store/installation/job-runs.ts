import type { RunMemory } from '../../platform/lib/scheduler.ts';
import type { Store } from '../workspace-scope.ts';
import type { Installation } from './installation.ts';

/** Stores the last runs of the scheduled jobs of a workspace. */
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
    note: (job, last_at) =>
      commit(async (transaction) => {
        const run = transaction.insertInto('job_runs').values({ job, last_at });
        await run.onConflict((conflict) => conflict.columns(['workspace', 'job']).doUpdateSet({ last_at })).execute();
      }),
  };
}

/** Prefix of the facts that store the last run of a job. */
const RUN = 'run.';

/** Stores the last runs of the scheduled jobs that belong to no workspace, as facts of the installation. */
export function installationRuns({ query, commit }: Installation): RunMemory {
  const runs = query.selectFrom('installation').where('name', 'like', `${RUN}%`);
  return {
    async read() {
      const rows = await runs.selectAll().execute();
      return new Map(rows.map(({ name, value }) => [name.slice(RUN.length), Number(value)]));
    },
    replace: (next) =>
      commit(async (transaction) => {
        await transaction.deleteFrom('installation').where('name', 'like', `${RUN}%`).execute();
        const rows = [...next].map(([job, at]) => ({ name: RUN + job, value: String(at) }));
        if (rows.length === 0) return;
        await transaction
          .insertInto('installation')
          .values(rows)
          // Another process may write the same rows concurrently.
          .onConflict((conflict) =>
            conflict.column('name').doUpdateSet((row) => ({ value: row.ref('excluded.value') })),
          )
          .execute();
      }),
    async note(job, at) {
      await query
        .insertInto('installation')
        .values({ name: RUN + job, value: String(at) })
        .onConflict((conflict) => conflict.column('name').doUpdateSet({ value: String(at) }))
        .execute();
    },
  };
}
