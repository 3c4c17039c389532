import type { Hook } from '../support/vendors/provider-servers/provider.ts';
import { MINUTE, NEVER, NUMBER, PROMPT, statusOf, type Ways } from './calm-ways.ts';
import { createOperator } from './operator.ts';
import type { Replica, Site } from './site.ts';

/**
 * Ours gets another name, and somebody makes another repository under the former name. worksync follows ours, until a person says
 * that the other one is meant; who was wrong says it once more, and all is as it was.
 */
export async function nameGoesToAnother(site: Site, { phase, promised, seen, change }: Ways): Promise<void> {
  const { providers } = site;
  const { rebind } = createOperator(site);
  // Each record has the address of its pull request in it.
  const writes = 12 + 2 * providers.held().pulls.length;
  await phase('another repository gets the name', writes, 60, async () => {
    providers.rename('acme/old');
    providers.giveName(true);
    await tellPast(site, 'another', providers.ofAnother);
    await promised('a status that tells of it', MINUTE, () => isTold(site));
    await change(PROMPT, { labels: ['ours'] });
    await seen('a change of ours, that has another name', 2 * MINUTE);
    await site.during(rebind('github'));
    await site.pass(MINUTE);
    if (await isTold(site)) site.tell('status: it tells of a name that somebody has bound again');
  });
  await phase('the name is ours again', writes, 60, async () => {
    providers.giveName(false);
    providers.rename('acme/app');
    await tellPast(site, 'ours', (hook) => hook);
    await promised('a status that tells of it again', MINUTE, () => isTold(site));
    await site.during(rebind('github'));
    await change(PROMPT, { labels: ['ours again'] });
    await seen('a change of ours, that has its name again', 2 * MINUTE);
    // What changed meanwhile is found by its list.
    await site.pass(3 * MINUTE);
  });
}

async function isTold(site: Site): Promise<boolean> {
  return JSON.stringify(await statusOf(site)).includes('names_rebound');
}

/** A webhook of which nothing is to come: it is of a repository that is not meant. */
async function tellPast(site: Site, delivery: string, from: (hook: Hook) => Hook): Promise<void> {
  const [{ origin }] = site.replicas as [Replica];
  const pull = { at: 0, do: 'pull', forge: 'github', number: NUMBER, hooks: NEVER } as const;
  const hook = site.providers.change({ ...pull, change: { labels: [delivery] } }, `of-${delivery}`);
  if (!hook) return;
  const url = `${origin}/webhooks/test/github`;
  await site.during(site.network.direct.request({ method: 'POST', url, target: 'hook', ...from(hook()) }));
}
