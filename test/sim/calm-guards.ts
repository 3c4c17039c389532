import { MINUTE, NEVER, statusOf, type Ways } from './calm-ways.ts';
import { createOperator } from './operator.ts';
import type { Site } from './site.ts';

/** No plan has so large a number. */
const MASS = [81, 82, 83, 84];

/** A poll brings many new pull requests: the first is sent, the others need the approval of a person, and the status says so. */
export async function guards(site: Site, { phase, promised, seen, change }: Ways): Promise<void> {
  const heldNow = async () =>
    (await site.partition()?.store.query.selectFrom('outbox').select('entity').where('state', '=', 'held').execute()) ??
    [];
  await phase('a mass comes', 2 * MASS.length, 60, async () => {
    await reloaded(site, 1);
    for (const number of MASS) await change(NEVER, {}, number);
    void site.partition()?.polls.pollNow();
    await promised('a mass is held', MINUTE, async () => (await heldNow()).length === MASS.length - 1);
    await promised('a status that tells of it', MINUTE, async () => (await statusOf(site))?.verdict === 'degraded');
    await site.during(createOperator(site).look());
    await site.pass(MINUTE);
    await site.releaseHeld();
    for (const number of MASS) await seen('what was held', 2 * MINUTE, number);
    await reloaded(site, 'off');
  });
}

/** With another limit of the guard. */
async function reloaded(site: Site, creations: number | 'off'): Promise<void> {
  site.configure({ ...site.settings(), creations });
  const composition = site.replicas[0]?.running?.composition;
  if (composition) await site.during(composition.reload.now());
}
