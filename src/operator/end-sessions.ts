import { systemRandom } from '../lib/random.ts';
import { ownDataFolder } from '../store/data-folder.ts';
import { openInstallation } from '../store/installation.ts';
import { endAllSessions as endAll } from '../store/session-rows.ts';

/** Where no daemon runs: takes the data folder, and logs all browsers out. Returns how many there were. */
export async function endAllSessions(data: string): Promise<number> {
  const folder = ownDataFolder(data);
  try {
    const installation = await openInstallation(folder.path, { random: systemRandom() });
    try {
      return await installation.commit((transaction) => endAll(transaction));
    } finally {
      await installation.close();
    }
  } finally {
    folder.release();
  }
}
