import { MINUTE, MOST_NAMED, NEVER, NUMBER, PROMPT, SECOND, statusOf, type Ways } from './calm-ways.ts';
import { WORKSPACE } from './hosts.ts';
import type { Forge } from './plan.ts';
import type { Site } from './site.ts';

/** Two more that nobody else touches. */
const OTHERS = [97, 98];

export async function goesThroughTroubles(site: Site, forge: Forge, ways: Ways): Promise<void> {
  // Of one that fails alone nobody knows whether it is at fault: it is tried as seldom as a change may be.
  await outage(site, ways, { numbers: [NUMBER, ...OTHERS], within: 3 * MINUTE });
  await outage(site, ways, { numbers: [NUMBER], within: 6 * MINUTE });
  await refusal(site, ways, { trouble: 'revoked', state: 'halted' });
  await refusal(site, ways, { trouble: 'limited', state: 'waiting' });
  await oneFails(site, ways);
  await pollsFail(site, forge, ways);
}

async function outage(
  site: Site,
  { phase, promised, seen, change }: Ways,
  { numbers, within }: { readonly numbers: readonly number[]; readonly within: number },
): Promise<void> {
  await phase(`nothing gets through for twenty minutes, of ${numbers.length}`, 60, 60, async () => {
    site.weather.turn(WORKSPACE, 'failed-before', 1, site.clock.elapsed() + 20 * MINUTE);
    for (const number of numbers) await change(PROMPT, { names: number % MOST_NAMED, labels: ['out'] }, number);
    await site.pass(10 * MINUTE);
    await promised('a status that tells of it', MINUTE, async () => (await statusOf(site))?.verdict === 'blocked');
    await site.pass(9 * MINUTE);
    await seen('what changed while nothing got through', within);
  });
}

async function refusal(
  site: Site,
  { phase, promised, seen, change }: Ways,
  { trouble, state }: { readonly trouble: 'revoked' | 'limited'; readonly state: 'halted' | 'waiting' },
): Promise<void> {
  await phase(`the workspace says that it is ${trouble}`, 12, 40, async () => {
    site.weather.turn(WORKSPACE, trouble, 1, site.clock.elapsed() + 8 * MINUTE);
    await change(PROMPT, { labels: [trouble] });
    await promised('a state that tells of it', 3 * MINUTE, async () => {
      const own = (await statusOf(site))?.workspaces.find(({ name }) => name === 'test');
      return own?.state.kind === state;
    });
    await site.pass(6 * MINUTE);
    await seen(`what changed while it said that it is ${trouble}`, 7 * MINUTE);
  });
}

/** It delays no other one. */
async function oneFails(site: Site, { phase, seen, change }: Ways): Promise<void> {
  await phase('one change fails', 24, 40, async () => {
    const [bad] = OTHERS as [number, number];
    const words = `"identifier":"${bad}"`;
    site.weather.turn(WORKSPACE, 'failed-before', 1, site.clock.elapsed() + 30 * MINUTE, words);
    await change(PROMPT, { labels: ['bad'] }, bad);
    for (let time = 0; time < 4; time++) {
      await site.pass(2 * MINUTE);
      await change(PROMPT, { labels: [`good ${time}`] });
      await seen('a change while another one fails', MINUTE);
    }
    site.weather.clear();
    await site.pass(MINUTE);
    await site.releaseHeld();
    await seen('what has failed', 15 * MINUTE, bad);
  });
}

async function pollsFail(site: Site, forge: Forge, { phase, seen, change }: Ways): Promise<void> {
  const server = `${forge}.test`;
  const turn = (trouble: 'failed-before' | 'hidden' | 'limited', duration: number) =>
    site.weather.turn(server, trouble, 1, site.clock.elapsed() + duration);
  const { poll } = site.settings();
  /** Minutes: after the seven failures that short pauses leave room for, the next pause is 320 seconds at most, or the interval. */
  const retried = Math.min(poll, 6) + 1;
  /** A change that nothing tells of, and a poll that cannot find it. */
  const missed = async (outcome: 'failed' | 'limited') => {
    const counted = () => site.counts.of('polls_total', { outcome });
    const before = counted();
    await change(NEVER, { labels: [outcome] });
    void site.partition()?.polls.pollNow();
    await seen(`a change that a ${outcome} poll has missed`, (outcome === 'failed' ? retried : 4) * MINUTE);
    if (counted() === before) site.tell(`metrics: no ${outcome} poll is counted`);
  };
  await change(NEVER, { labels: [] });
  await seen('a change without a webhook', (poll + 3) * MINUTE);
  await phase('a poll fails', 6, 40, async () => {
    turn('failed-before', 20 * SECOND);
    await missed('failed');
  });
  await phase('a provider hides what is there, and is limited later', 12, 80, async () => {
    turn('hidden', 20 * SECOND);
    void site.partition()?.polls.pollNow();
    // Then its names are in doubt, and asked for by the next poll.
    await site.pass(25 * SECOND);
    turn('limited', 20 * SECOND);
    await missed('limited');
  });
  // Whoever is limited waits as long as it is told to, and then goes on.
  turn('limited', (poll + 1) * MINUTE);
  await change(NEVER, { labels: ['long'] });
  await seen('a change without a webhook at a provider that limits', (2 * poll + 5) * MINUTE);
}
