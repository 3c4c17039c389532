import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take minutes of one process: begun last, they would keep one core busy while the others have nothing to do. */
const LONGEST = ['test/deep/sim.test.ts'];

/** Without results of an earlier run, files are played project by project and by their size. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONGEST.some((file) => moduleId.endsWith(file));
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
