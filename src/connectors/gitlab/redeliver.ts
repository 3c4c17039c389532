import { z } from 'zod';
import { absent, instant } from '../kit/fields.ts';
import { parseAnswer } from '../kit/json.ts';
import type { Api } from './api.ts';
import { type Hooked, hookedAt } from './hooks.ts';
import type { Options } from './options.ts';
import type { Projects } from './projects.ts';

/** GitLab lists at most 20 events on a page. */
const PAGE = 20;
/** How often one delivery is sent, the first time counted in: what fails so often fails for a reason. */
const MOST_ATTEMPTS = 4;
/** GitLab takes 5 a minute for each hook (providers' facts §2.2); what is left is asked for the next time. */
const MOST_AT_ONCE = 5;

const event = z.object({
  id: z.int().positive(),
  request_headers: absent(z.record(z.string(), z.unknown())),
  response_headers: absent(z.record(z.string(), z.unknown())),
  response_status: z.union([z.string(), z.int()]).transform(String).catch(''),
  created_at: absent(instant),
});
type Event = z.infer<typeof event>;

/** Asks GitLab to send again what failed since then. Its own list tells how often that was done already. */
export async function redeliver(
  api: Api,
  projects: Projects,
  options: Options,
  { url, since }: { readonly url: string; readonly since: string },
  signal: AbortSignal,
): Promise<number> {
  const all = await hookedAt(api, projects, options, url, signal);
  let asked = 0;
  for (const each of all) if (!('error' in each)) asked += await redeliverAt(api, each, since, signal);
  const refused = all.find((each) => 'error' in each);
  if (asked === 0 && refused) throw refused.error;
  return asked;
}

async function redeliverAt(api: Api, { path, hooks }: Hooked, since: string, signal: AbortSignal): Promise<number> {
  let asked = 0;
  for (const { id } of hooks) {
    const list = `${path}/${id}/events`;
    const failed = failedIn(await eventsSince(api, list, Date.parse(since), signal));
    for (const each of failed.slice(0, MOST_AT_ONCE)) {
      const { status } = await api.send('POST', `${list}/${each.id}/resend`, { explained: [422, 429], signal });
      if (status === 429) break;
      if (status < 300) asked += 1;
    }
  }
  return asked;
}

/** Newest first, up to the first that is older. */
async function eventsSince(api: Api, path: string, since: number, signal: AbortSignal): Promise<readonly Event[]> {
  const isOlder = (found: unknown) => {
    const time = timeOf(read(found, path));
    return time !== undefined && time < since;
  };
  const options = { use: 'background', signal } as const;
  const found = await api.list(path, options, { size: PAGE, isEnough: (page) => page.some(isOlder) });
  return found.filter((each) => !isOlder(each)).map((each) => read(each, path));
}

function read(found: unknown, path: string): Event {
  return parseAnswer(event, found, `GET ${path}`);
}

/** Only newer servers tell when it was. Older ones: what was signed says it, and so does our own answer. */
function timeOf({ created_at, request_headers, response_headers }: Event): number | undefined {
  const signed = Number(headerOf(request_headers, 'webhook-timestamp')) * 1_000;
  const times = [Date.parse(created_at ?? ''), signed, Date.parse(headerOf(response_headers, 'date') ?? '')];
  return times.find((time) => time > 0);
}

function headerOf(headers: Event['request_headers'], name: string): string | undefined {
  const value = Object.entries(headers ?? {}).find(([given]) => given.toLowerCase() === name)?.[1];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}

/** One event for each delivery of which no attempt was taken: the newest, so that the list is read once. */
function failedIn(events: readonly Event[]): readonly Event[] {
  const attempts = new Map<string, Event[]>();
  for (const each of events) {
    // Servers before 17.4 name no delivery: each event is one, and cannot be sent again there either.
    const name = headerOf(each.request_headers, 'idempotency-key') ?? `event ${each.id}`;
    attempts.set(name, [...(attempts.get(name) ?? []), each]);
  }
  const open = [...attempts.values()].filter((all) => all.length < MOST_ATTEMPTS && !all.some(isTaken));
  return open.flatMap((all) => all[0] ?? []);
}

/** Time-outs stand there as `internal error`. */
function isTaken({ response_status: status }: Event): boolean {
  return /^[23]\d\d$/.test(status);
}
