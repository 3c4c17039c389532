import { cpus, loadavg } from 'node:os';
import { inspect, parseArgs } from 'node:util';
import { answers } from './answers.ts';
import { type Bench, inFolder, isAskedFor, jsonLine, type Measured, type Shared, table } from './bench.ts';
import { bigStart } from './deep/big-start.ts';
import { loopBlock } from './deep/loop-block.ts';
import { neighbour } from './deep/neighbour.ts';
import { pages } from './deep/pages.ts';
import { ruleLab } from './deep/rule-lab.ts';
import { flood } from './flood.ts';
import { ingest, manyIngest, pgIngest } from './ingest.ts';
import { createKnownItems } from './known-items.ts';
import { pgStatus } from './postgres/status.ts';
import { pgTakeover } from './postgres/takeover.ts';
import { providerCalls } from './provider-calls.ts';
import { backfill } from './quota/backfill.ts';
import { clock, drain, pgQuota, restart } from './quota/drain.ts';
import { forecast } from './quota/forecast.ts';
import { calls, fresh } from './quota/fresh.ts';
import { REPORT, TUNING } from './quota/references/day.ts';
import { readTrace } from './quota/references/trace.ts';
import { taskMoves } from './quota/task-moves.ts';
import { automatic, tenant } from './quota/tenant.ts';
import { pgReconcile, reconcile } from './reconcile.ts';
import { gateway, service } from './requests.ts';
import { manyAtRest, pgAtRest } from './rest.ts';
import { commands, start, startService, yardsticks } from './start.ts';

/**
 * `npm run bench`, with `-- --json` for JSON lines, and with names for some of the figures only
 * (`npm run bench -- ingest start`). `--trace file`, as often as you like, plays traces of deliveries in place of the
 * generated days; `--tuning` plays the days and seeds that policies are tuned on. Figures go to standard output, progress
 * to standard error. `--deep` (`npm run bench:deep`) measures what needs large databases instead.
 */
const BENCHES: readonly Bench[] = [
  ingest,
  reconcile,
  yardsticks,
  start,
  startService,
  commands,
  service,
  gateway,
  flood,
  answers,
  drain,
  calls,
  fresh,
  forecast,
  restart,
  clock,
  tenant,
  automatic,
  taskMoves,
  backfill,
  providerCalls,
  manyAtRest,
  manyIngest,
  pgIngest,
  pgReconcile,
  pgQuota,
  pgAtRest,
  pgStatus,
  pgTakeover,
];
const DEEP: readonly Bench[] = [bigStart, loopBlock, neighbour, ruleLab, pages];

const { positionals: names, values } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean' },
    deep: { type: 'boolean' },
    trace: { type: 'string', multiple: true },
    tuning: { type: 'boolean' },
  },
});
const asJson = values.json === true;
const traces = (values.trace ?? []).map(readTrace);
const split = values.tuning === true ? TUNING : REPORT;
const benches = values.deep === true ? DEEP : BENCHES;
const chosen = benches.filter((bench) => isAskedFor(bench, names));
if (chosen.length === 0) {
  process.stderr.write(`There is no such figure. There are: ${benches.flatMap(({ figures }) => figures).join(', ')}\n`);
  process.exit(2);
}

if (!asJson) print(`${machine()}\n`);
const measured: Measured[] = [];
const failed: string[] = [];
await inFolder(async (folder) => {
  let known: Promise<string> | undefined;
  const shared: Shared = { traces, split, knownItems: () => (known ??= createKnownItems(folder)) };
  for (const bench of chosen) {
    process.stderr.write(`measuring ${bench.figures.join(', ')} …\n`);
    const figures = await bench.run(shared).catch((error: unknown) => {
      failed.push(`no ${bench.figures.join(', ')}: ${inspect(error)}\n`);
      return [];
    });
    measured.push(...figures);
    if (asJson) for (const each of figures) print(jsonLine(each));
  }
});
if (!asJson) print(table(measured));
process.stderr.write(failed.join(''));
process.exitCode = failed.length > 0 ? 1 : 0;

function machine(): string {
  const load = loadavg()[0]?.toFixed(1);
  return `${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'}), Node ${process.versions.node}, load ${load} at the start`;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
