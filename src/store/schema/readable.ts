import { describeBuild, OLDEST_COMMIT } from '../../model/build.ts';
import { programVersion } from '../../platform/lib/program-folder.ts';

/** Adds to the refusal of a database which ones this program reads. */
export function withReadable(refusal: string): string {
  return `${refusal}; this is worksync ${describeBuild(programVersion())}, which reads data since commit ${OLDEST_COMMIT}`;
}
