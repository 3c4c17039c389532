import { describe, expect, it } from 'vitest';
import { type Bench, isAskedFor } from '../bench/bench.ts';
import { compared, type Figure, figure, jsonLine, median, reaches, table } from '../bench/report.ts';

const MEANING = { name: 'ingest.peer', unit: 'deliveries/s', better: 'higher', aim: 0.9 } as const;

describe('median', () => {
  it.each([
    [[3, 1, 2], 2],
    [[4, 1, 3, 2], 2],
    [[5], 5],
    [[10, 9, 100], 10],
  ])('of %j is %d', (values, expected) => {
    expect(median(values)).toBe(expected);
  });

  it('of nothing is an error', () => {
    expect(() => median([])).toThrow('nothing');
  });
});

describe('compared', () => {
  it('takes value, limit and ratio from the round with the median ratio', () => {
    const measured = compared(MEANING, [100, 90, 80], [50, 100, 100]);
    expect(measured).toMatchObject({ value: 90, limit: 100, ratio: 0.9, worst: 0.8 });
  });
});

describe('figure', () => {
  it('is the median beside the worst, and has no ratio', () => {
    expect(figure(MEANING, [3, 1, 2])).toMatchObject({ value: 2, limit: null, ratio: null, worst: 1 });
    expect(figure({ ...MEANING, better: 'lower' }, [3, 1, 2])).toMatchObject({ value: 2, worst: 3 });
  });
});

describe('reaches', () => {
  const base: Figure = { ...MEANING, value: 5, limit: null, ratio: null, worst: 3 };
  it.each([
    [{ ratio: 0.9 }, true],
    [{ ratio: 0.89 }, false],
    [{ aim: 5 }, true],
    [{ aim: 6 }, false],
    [{ better: 'lower', aim: 5 }, true],
    [{ better: 'lower', aim: 4 }, false],
    [{ aim: false }, undefined],
    [{ aim: 3, everyRun: true }, true],
    [{ aim: 4, everyRun: true }, false],
    [{ aim: 4, better: 'lower', value: 3, worst: 4, everyRun: true }, true],
    [{ aim: 4, better: 'lower', value: 3, worst: 5, everyRun: true }, false],
  ] as const)('%j: %s', (change, expected) => {
    expect(reaches({ ...base, ...change })).toBe(expected);
  });
});

describe('report', () => {
  const measured = compared({ ...MEANING, note: 'as told' }, [4321.5], [4000]);

  it('writes exactly the agreed keys as JSON', () => {
    expect(JSON.parse(jsonLine(measured))).toEqual({
      name: 'ingest.peer',
      value: 4321.5,
      unit: 'deliveries/s',
      limit: 4000,
      ratio: 1.080375,
      better: 'higher',
      aim: 0.9,
      worst: 1.080375,
    });
  });

  it('writes a table with the notes below', () => {
    expect(table([measured])).toBe(
      [
        'figure       value  unit          limit  ratio  worst    aim',
        'ingest.peer  4 322  deliveries/s  4 000   1.08   1.08  ≥ 0.9  reached',
        '',
        'ingest.peer: as told',
      ].join('\n'),
    );
  });

  it('says what is missed', () => {
    expect(table([{ ...measured, ratio: 0.5 }])).toContain('MISSED');
  });
});

describe('isAskedFor', () => {
  const bench: Bench = { figures: ['ingest.octokit', 'ingest.probot', 'start'], run: async () => [] };
  it.each([
    [[], true],
    [['ingest'], true],
    [['ingest.probot'], true],
    [['other', 'start'], true],
    [['ingest.gitlab'], false],
    [['in'], false],
  ])('%j: %s', (names, expected) => {
    expect(isAskedFor(bench, names)).toBe(expected);
  });
});
