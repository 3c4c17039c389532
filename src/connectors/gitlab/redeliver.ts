import { z } from 'zod';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Connection } from '../connector.ts';
import { absent, parseAnswer } from '../kit/payload.ts';
import { createRedelivery, type DeliveryList, type ListedAttempt, pagedDeliveries } from '../kit/redelivery.ts';
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

const events = z.array(event);

function listAt(api: Api, path: string): DeliveryList {
  const first = `per_page=${PAGE}&page=1`;
  return pagedDeliveries({
    name: path,
    async read(query, signal) {
      const answer = await api.get(path, { query, use: 'background', signal });
      const { found, next } = api.pageOf(answer, { path, query });
      return { attempts: parseAnswer(events, found, `GET ${path}`).map(listed), next };
    },
    queries: { newest: first, failed: [`status=client_failure&${first}`, `status=server_failure&${first}`] },
    pageSize: PAGE,
    mostPages: MOST_PAGES,
    mark: { read: Number, write: String },
    floorOf: (last) => last + 1,
    async resend(id, signal) {
      const { status } = await api.write('POST', `${path}/${id}/resend`, { body: {}, explained: [422, 429], signal });
      if (status === 429) return 'later';
      return status < 300 ? 'requested' : 'gone';
    },
  });
}

/** Servers before 17.4 give deliveries no name: each event counts as one, and those servers cannot send it again anyway. */
function listed({ id, request_headers: headers, response_status: status }: Event): ListedAttempt {
  const key = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === 'idempotency-key')?.[1];
  const delivery = typeof key === 'string' ? key : `event ${id}`;
  // One that timed out or reached nobody is listed as `internal error`.
  const result = /^[23]\d\d$/.test(status) ? 'arrived' : /^\d{3}$/.test(status) ? 'refused' : 'unanswered';
  return { delivery, attempt: String(id), order: id, result };
}
