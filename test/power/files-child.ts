/**
 * Changes one small file, or a whole database, as the program does, for the tests of power failures.
 *
 *   node files-child.ts <action> <folder>
 */
import { join } from 'node:path';
import { backUp } from '../../src/admin/installation/data.ts';
import { keyFile } from '../../src/cli/access/key-rotation.ts';
import { complaintsOf } from '../../src/platform/database/sqlite.ts';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { makeKeyFile } from '../../src/platform/lib/key-file.ts';
import { INSTALLATION_FILE } from '../../src/store/installation/installation.ts';
import { restoreAll } from '../../src/store/restore/restore.ts';

const [action, folder = ''] = process.argv.slice(2);
const random = systemRandom();

if (action === 'make-key') makeKeyFile(join(folder, 'key'), random);
if (action === 'replace-api-key') {
  const file = keyFile(join(folder, 'api-key'));
  file.begin();
  file.write('another-secret');
}
if (action === 'back-up') await backUp({ data: folder }, join(folder, 'copy.db'));
if (action === 'restore') {
  const checkFile = async (file: string) => complaintsOf(file);
  await restoreAll({ backup: join(folder, 'backup.db'), file: join(folder, INSTALLATION_FILE), random, checkFile });
}
