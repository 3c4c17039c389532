import { type Act, MINUTE, NEVER, PROMPT, SECOND, type Ways } from './calm-ways.ts';
import type { Site } from './site.ts';

/** No webhook tells of them. */
const UNHEARD = [95, 96];
const UNREADABLE = [71, 72, 73, 74, 75];
/** Requests for those to a provider out of reach, within five minutes: they wait together. Names in doubt are asked for too. */
const ASKED_IN_VAIN = 66;

/** Of a pull request that worksync does not know a comment tells only which one it is: it is read then. */
export async function namesOnly(site: Site, { phase, seen, change }: Ways, act: Act): Promise<void> {
  const [one, other] = UNHEARD as [number, number];
  const comment = (number: number) => act({ at: 0, do: 'comment', number, hooks: PROMPT });
  await phase('somebody comments on what nobody told of', 4, 8, async () => {
    await change(NEVER, {}, one);
    await comment(one);
    await seen('what was commented on', MINUTE, one);
  });
  await phase('it changes while it is read', 6, 8, async () => {
    await change(NEVER, {}, other);
    site.weather.turn('github.test', 'slow', 1, site.clock.elapsed() + 10 * MINUTE);
    await comment(other);
    await site.pass(2 * SECOND);
    await change(NEVER, { labels: ['read'] }, other);
    await comment(other);
    await site.pass(2 * SECOND);
    site.weather.clear();
    await seen('what changed while it was read', 3 * MINUTE, other);
    // A link may wait for the list of tasks.
    await site.pass(3 * MINUTE);
  });
}

/** All that wait to be read wait together while their provider is out of reach. */
export async function unreadable(site: Site, { phase, seen, change }: Ways, act: Act): Promise<void> {
  const { recorder, weather, clock, pass, settings, tell } = site;
  await phase('what is to be read cannot be read', 2 * UNREADABLE.length, 20, async () => {
    for (const number of UNREADABLE) await change(NEVER, {}, number);
    const before = recorder.events.length;
    weather.turn('github.test', 'failed-before', 1, clock.elapsed() + 5 * MINUTE);
    for (const number of UNREADABLE) await act({ at: 0, do: 'comment', number, hooks: PROMPT });
    await pass(5 * MINUTE);
    const asked = recorder.events
      .slice(before)
      .filter((event) => event.what === 'sent' && new URL(event.url).host === 'github.test');
    const most = ASKED_IN_VAIN + 2 * Math.ceil(5 / settings().poll);
    if (asked.length > most) tell(`waste: ${asked.length} requests to who is out of reach`);
    for (const number of UNREADABLE) await seen('what could not be read', 3 * MINUTE, number);
    // A link may wait for the list of tasks.
    await pass(3 * MINUTE);
  });
}
