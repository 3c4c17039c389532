import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { TOP } from '../support/processes.ts';
import type { Proof } from '../support/proofs.ts';
import { ATTACKS, FAULTS, type Resistance } from './claims.ts';
import { pageOf, type Shown } from './page.ts';
import { isNamed, type Ran, runTests } from './run.ts';

/**
 * `npm run evidence`: runs the tests that the lists of faults and attacks name, and writes what they show to `test/evidence.md`.
 * With `-- --deep` laws draw all of their cases; with `-- F1 A5` only these
 * rows are run. Ends with 1 where one fails or is not there.
 */
const { values, positionals } = parseArgs({ allowPositionals: true, options: { deep: { type: 'boolean' } } });
const isDeep = values.deep === true;
/** It looks into both databases: one title for each. */
const CANARIES = 'test/deep/canaries.test.ts';
const SEED = process.env['TEST_SEED'] ?? '1';
process.env['TEST_SEED'] = SEED;

const rows = [...FAULTS, ...ATTACKS].filter(({ id }) => positionals.length === 0 || positionals.includes(id));
const proofs = rows.flatMap((row) => row.proofs).filter(([file]) => file.endsWith('.test.ts'));
const [drawn, others] = [proofs.filter(isDrawn), proofs.filter((proof) => !isDrawn(proof))];
const overPostgres = proofs.filter(([file]) => file === CANARIES);
const ran = [
  ...runTests(['deep'], drawn),
  ...runTests(['fast', 'whole', 'alone'], others),
  ...runTests(['postgres-whole'], overPostgres),
];

const shown = new Map(rows.map((row) => [row.id, shownBy(row, ran)]));
const page = join(TOP, 'test/evidence.md');
writeFileSync(page, pageOf(shown, SEED, existsSync(page) ? readFileSync(page, 'utf8') : ''));
const wrong = rows.filter(({ id }) => !isSound(shown.get(id)));
for (const { id } of wrong) process.stderr.write(`${id}: ${JSON.stringify(shown.get(id))}\n`);
process.exitCode = wrong.length === 0 ? 0 : 1;

/** What takes long runs in a deep run only; laws and the like play all of their cases there. */
function isDrawn([file]: Proof): boolean {
  const isLong = /^test\/(deep|power)\/|\/killed-work\.test/.test(file);
  return isLong || (isDeep && /^test\/(laws|contracts|fuzz|model)\/|\/(crash|start|order|trouble)\.test/.test(file));
}

function shownBy({ proofs }: Resistance, ran: readonly Ran[]): Shown {
  const tests = ran.filter((each) => proofs.some((proof) => isNamed(each, proof)));
  const named = proofs.filter(([file, test]) => test !== undefined && file.endsWith('.test.ts'));
  return {
    tests: tests.length,
    failed: tests.filter(({ passed }) => !passed).length,
    cases: tests.reduce((sum, { cases }) => sum + cases, 0),
    missing: named.filter((proof) => !tests.some((each) => isNamed(each, proof))),
  };
}

function isSound(shown: Shown | undefined): boolean {
  return shown !== undefined && shown.failed === 0 && shown.missing.length === 0;
}
