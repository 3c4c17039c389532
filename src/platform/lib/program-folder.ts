import { findPackageJSON } from 'node:module';
import { dirname } from 'node:path';

/**
 * The folder of the installation: of the repository, or of the installed package. `config/` and the pages of `src/` lie below
 * both, while the code of a package lies elsewhere than its sources.
 */
export const PROGRAM = dirname(findPackageJSON(import.meta.url) as string);
