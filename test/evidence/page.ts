import { type Proof, wordsOf } from '../support/proofs.ts';
import { ATTACKS, FAULTS, type Resistance } from './claims.ts';

/** What a run of the tests of a row has shown. */
export interface Shown {
  readonly tests: number;
  readonly failed: number;
  /** That the tests tell: runs of properties, kills, orders. */
  readonly cases: number;
  /** Proofs of which no test was found. */
  readonly missing: readonly Proof[];
}

/** A row without its last two cells, which say what a run has shown. */
export function beginningOf({ id, what, holds, proofs }: Resistance): string {
  return `| ${[id, what, holds, wordsOf(proofs)].join(' | ')} |`;
}

/** @param before the page as it was: rows of which nothing was run keep their figures */
export function pageOf(shown: ReadonlyMap<string, Shown>, seed: string, before = ''): string {
  const kept = before.split('\n');
  const rowsOf = (rows: readonly Resistance[]) => rows.map((row) => rowOf(row, shown.get(row.id), kept)).join('\n');
  return `# What worksync withstands

Made from [\`evidence/claims.ts\`](evidence/claims.ts) by \`npm run evidence\`, which runs the tests that are named here and writes down what
they have shown: how many tests ran, and how many cases they played, as far as they draw or count them. Seed: ${seed}. Without
\`-- --deep\` a law draws a tenth of its cases. A file that is no test is a measurement, and is not run for this page.

## Faults

| | what goes wrong | what holds | proved by | figures | state |
| --- | --- | --- | --- | --- | --- |
${rowsOf(FAULTS)}

## Attacks

| | what somebody tries | what holds | proved by | figures | state |
| --- | --- | --- | --- | --- | --- |
${rowsOf(ATTACKS)}
`;
}

function rowOf(row: Resistance, shown: Shown | undefined, kept: readonly string[]): string {
  const beginning = beginningOf(row);
  const before = shown ? undefined : kept.find((line) => line.startsWith(beginning));
  return before ?? `${beginning} ${figuresOf(shown)} | ${stateOf(row, shown)} |`;
}

function figuresOf(shown: Shown | undefined): string {
  if (!shown || shown.tests === 0) return '–';
  return [`${shown.tests} tests`, ...(shown.cases > 0 ? [`${shown.cases} cases`] : [])].join(', ');
}

function stateOf({ proofs, left }: Resistance, shown: Shown | undefined): string {
  if (shown && shown.failed > 0) return `**${shown.failed} failed**`;
  if (shown && shown.missing.length > 0) return `**${shown.missing.length} not run**`;
  if (left !== undefined) return `${proofs.length > 0 ? 'left: ' : ''}${left}`;
  return 'proved';
}
