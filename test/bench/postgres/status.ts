import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { openSharedInstallation } from '../../../src/store/installation/installation.ts';
import { readStatuses } from '../../../src/store/status/stored-status.ts';
import { type Bench, expectPremise, figure, RUNS } from '../bench.ts';
import { withPostgres } from './server.ts';

const WORKSPACES = 2_000;
const ROWS = 100_000;
/** Workspaces in one statement, as in `admin/status/whole-status.ts`. */
const AT_A_TIME = 250;
const NOW = Date.UTC(2026, 10, 20, 12);
const SCHEMA = 'status';

/** Milliseconds that one process takes to read the status of all workspaces of a PostgreSQL, with the deliveries of a day in the inbox. */
export const pgStatus: Bench = {
  figures: ['pg.status'],
  run: () =>
    withPostgres(async (server) => {
      const { query, close } = await openSharedInstallation(server.place(SCHEMA), { random: systemRandom() });
      try {
        await server.ask(
          `insert into ${SCHEMA}.workspaces (id, name) select n, 'w' || n from generate_series(1, ${WORKSPACES}) n`,
        );
        await server.ask(`insert into ${SCHEMA}.inbox (workspace, connection, delivery_key, source, event, received_at, state)
          select 1 + n % ${WORKSPACES}, 'github', 'k' || n, 'webhook', 'pull_request', ${NOW} - n, 'applied'
          from generate_series(1, ${ROWS}) n`);
        await server.ask('vacuum analyze');
        const read = async () => {
          const began = performance.now();
          for (let first = 1; first <= WORKSPACES; first += AT_A_TIME) {
            const some = Array.from({ length: AT_A_TIME }, (_, index) => first + index);
            const { size } = await readStatuses(query, some, NOW);
            expectPremise(size === AT_A_TIME, `${size} of ${AT_A_TIME} workspaces have a status`);
          }
          return performance.now() - began;
        };
        await read();
        const values: number[] = [];
        for (let run = 0; run < RUNS; run++) values.push(await read());
        const note = `${WORKSPACES} workspaces, ${ROWS} deliveries`;
        return [figure({ name: 'pg.status', unit: 'ms', aim: 300, note }, values)];
      } finally {
        await close();
      }
    }),
};
