import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import type { Connection } from '../connector.ts';
import { absent } from '../kit/fields.ts';
import {
  createRedelivery,
  type DeliveryList,
  type ListedAttempt,
  type Look,
  onlyNewest,
  sortedOut,
} from '../kit/redelivery.ts';
import type { Api } from './api.ts';
import { hookedAt } from './hooks.ts';
import type { Options } from './options.ts';
import type { Projects } from './projects.ts';

type Redeliver = NonNullable<Connection['redeliver']>;

const DAY = 86_400_000;
/** GitLab accepts 5 requests a minute for each hook (GL3); the next round requests the rest. */
const LIMITS = { mostAttempts: 4, mostOfList: 5, mostAtOnce: Number.POSITIVE_INFINITY, keptFor: 3 * DAY };
/** GitLab lists at most 20 events on a page, each with the whole request that it sent. */
const PAGE = 20;
/** How many pages a round reads of one list at most: of what failed with a status, and of everything. */
const MOST_PAGES = { failed: 10, all: 50 };

interface RedeliverDeps {
  readonly api: Api;
  readonly projects: Projects;
  readonly options: Options;
  readonly clock: Clock;
}

/** As far as known, GitLab does not repeat a failed delivery by itself, so worksync asks for it. */
export function createRedeliver({ api, projects, options, clock }: RedeliverDeps): Redeliver {
  return createRedelivery(clock, LIMITS, async (url, signal) => {
    const all = await hookedAt(api, projects, options, url, signal);
    const refused = all.find((each) => 'error' in each);
    const lists = all.flatMap((each) =>
      'error' in each ? [] : each.hooks.map(({ id }) => `${each.path}/${id}/events`),
    );
    if (lists.length === 0 && refused) throw refused.error;
    return lists.map((path) => listAt(api, path));
  });
}

/** The fields to keep of an event; worksync drops the rest, such as the request, page by page. */
const event = z.object({
  id: z.int().positive(),
  request_headers: absent(z.record(z.string(), z.unknown())),
  response_status: z.union([z.string(), z.int()]).transform(String).catch(''),
});
type Event = z.infer<typeof event>;

/**
 * Reads the events of a hook, newest first, back to where the last look ended. If the first page reaches back so far, it is
 * enough; else GitLab's own filters find what failed among the rest. They go by the status of the answer. So if the first page
 * shows a delivery that got none (listed as `internal error`), this reads the whole list.
 */
function listAt(api: Api, path: string): DeliveryList {
  async function walk(query: string | undefined, last: number, most: number, signal: AbortSignal) {
    const events: Event[] = [];
    let count = 0;
    const sized = `${query === undefined ? '' : `${query}&`}per_page=${PAGE}`;
    for await (const page of api.pages(event, path, { query: sized, use: 'background', signal })) {
      const recent = page.filter(({ id }) => id > last);
      events.push(...recent);
      if (recent.length < page.length || page.length < PAGE) return { events, isWhole: true };
      if (++count === most) return { events, isWhole: false };
    }
    return { events, isWhole: true };
  }

  async function look(from: string | undefined, signal: AbortSignal): Promise<Look> {
    const last = Number(from ?? 0);
    const first = await walk(undefined, last, 1, signal);
    const newest = Math.max(last, ...first.events.map(({ id }) => id));
    const upTo = newest === 0 ? undefined : String(newest);
    if (first.isWhole) return { ...sortedOut(first.events.map(listed)), upTo };
    const found = [first];
    for (const status of ['client_failure', 'server_failure'])
      found.push(await walk(`status=${status}`, last, MOST_PAGES.failed, signal));
    if (first.events.some(hasNoStatus)) found.push(await walk(undefined, last, MOST_PAGES.all, signal));
    const isWhole = found.slice(1).every((each) => each.isWhole);
    const attempts = found.flatMap(({ events }) => events).map(listed);
    return { ...sortedOut(attempts), upTo, ...(isWhole ? {} : { cut: onlyNewest(MOST_PAGES.failed * PAGE) }) };
  }

  return {
    name: path,
    look,
    async ask(id, signal) {
      const { status } = await api.write('POST', `${path}/${id}/resend`, { body: {}, explained: [422, 429], signal });
      if (status === 429) return 'later';
      return status < 300 ? 'asked' : 'gone';
    },
  };
}

/** Servers before 17.4 give deliveries no name: each event counts as one, and those servers cannot send it again anyway. */
function listed(one: Event): ListedAttempt {
  const { id, request_headers: headers } = one;
  const key = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === 'idempotency-key')?.[1];
  const delivery = typeof key === 'string' ? key : `event ${id}`;
  return { delivery, attempt: String(id), order: id, hasArrived: hasArrived(one) };
}

function hasArrived({ response_status: status }: Event): boolean {
  return /^[23]\d\d$/.test(status);
}

/** Whether the delivery timed out or reached nobody. */
function hasNoStatus({ response_status: status }: Event): boolean {
  return !/^\d{3}$/.test(status);
}
