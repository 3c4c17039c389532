import { hash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../../../src/lib/clock.ts';
import type { Fields, Line } from '../../bench/quota/references/trace.ts';

/** A pull request as a provider holds it. Times are epoch milliseconds. */
export interface HeldPull {
  readonly number: number;
  readonly fields: Fields;
  readonly created: number;
  readonly updated: number;
  readonly merged: number | null;
}

export interface Hook {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a record of the workspace should say. */
export interface ExpectedRecord extends Readonly<Record<string, unknown>> {
  readonly provider: string;
  readonly identifier: string;
}

/** How one vendor shows a repository of pull requests. All in it is what the vendor's API and webhooks say, no more. */
export interface Vendor {
  readonly id: string;
  /** The vendor's own part of a connection. */
  options(apiUrl: string): Readonly<Record<string, unknown>>;
  /** What the workspace mirrors of a pull request, as far as a webhook or an answer of the API says it. */
  said(pull: HeldPull, by: 'hook' | 'api'): Readonly<Record<string, unknown>>;
  hook(pull: HeldPull, event: string, delivery: string): Hook;
  /** Answers a GET; undefined: 404. `list` says which pulls of a list are shown, in which order. */
  answer(url: URL, pulls: ReadonlyMap<number, HeldPull>): VendorAnswer | undefined;
  record(pull: HeldPull): ExpectedRecord;
}

export interface VendorAnswer {
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The pull requests that the answer shows. */
  readonly shown: readonly HeldPull[];
}

/** A provider that stands on loopback, and remembers what it told the daemon and when. */
export interface Provider {
  readonly vendor: Vendor;
  readonly url: string;
  readonly pulls: ReadonlyMap<number, HeldPull>;
  /** What was asked, and could not be answered. */
  readonly unanswered: string[];
  /** Something happens there, in a day that began then. */
  happen(line: Line, day: number): HeldPull;
  close(): Promise<void>;
}

/**
 * @param told called with each state that an answer of the API shows
 */
export async function openProvider(
  vendor: Vendor,
  { clock, told }: { clock: Pick<Clock, 'now'>; told: (pull: HeldPull) => void },
): Promise<Provider> {
  const pulls = new Map<number, HeldPull>();
  const unanswered: string[] = [];

  function respond(request: IncomingMessage, response: ServerResponse): void {
    response.sendDate = false;
    response.setHeader('date', new Date(clock.now()).toUTCString());
    response.setHeader('content-type', 'application/json');
    const answer = vendor.answer(new URL(request.url ?? '/', url), pulls);
    if (!answer) {
      unanswered.push(`${request.method} ${request.url}`);
      response.writeHead(404).end('{"message":"Not Found"}');
      return;
    }
    const body = JSON.stringify(answer.body);
    const etag = `"${hash('sha256', body, 'hex').slice(0, 16)}"`;
    response.setHeader('etag', etag);
    if (request.headers['if-none-match'] === etag) {
      response.writeHead(304).end();
      return;
    }
    for (const pull of answer.shown) told(pull);
    response.writeHead(200, answer.headers).end(body);
  }

  const server = createServer(respond);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    ...{ vendor, url, pulls, unanswered },
    happen({ item, fields, at }, day) {
      const number = Number(item.split('/')[1]);
      const updated = Math.floor(day + at * 1_000);
      const before = pulls.get(number);
      const merged = before?.merged ?? (fields.state === 'merged' ? updated : null);
      const pull = { number, fields, updated, created: before?.created ?? updated, merged };
      pulls.set(number, pull);
      return pull;
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

/** The fields that every vendor has, and says everywhere. */
export function mirrored({ title, description, state, draft, reviewers }: Fields) {
  return { title, description, state, draft, reviewers: reviewers.toSorted() };
}

/** The pulls that a list shows, ordered and cut into pages. */
export function listed(
  pulls: ReadonlyMap<number, HeldPull>,
  wish: {
    readonly where: (pull: HeldPull) => boolean;
    readonly by: 'updated' | 'created';
    readonly isDescending: boolean;
    readonly page: number;
    readonly perPage: number;
  },
): { readonly shown: readonly HeldPull[]; readonly hasNext: boolean; readonly lastPage: number } {
  const { where, by, isDescending, page, perPage } = wish;
  const sign = isDescending ? -1 : 1;
  const found = [...pulls.values()].filter(where).sort((a, b) => sign * (a[by] - b[by] || a.number - b.number));
  const shown = found.slice((page - 1) * perPage, page * perPage);
  return { shown, hasNext: page * perPage < found.length, lastPage: Math.max(1, Math.ceil(found.length / perPage)) };
}

/** `Link` of RFC 8288, as GitHub and GitLab send it. */
export function linkHeader(
  url: URL,
  page: number,
  { hasNext, lastPage }: { hasNext: boolean; lastPage: number },
): Readonly<Record<string, string>> {
  const to = (number: number, rel: string) => {
    const target = new URL(url);
    target.searchParams.set('page', String(number));
    return `<${target.href}>; rel="${rel}"`;
  };
  const links = [
    ...(hasNext ? [to(page + 1, 'next'), to(lastPage, 'last')] : []),
    ...(page > 1 ? [to(page - 1, 'prev'), to(1, 'first')] : []),
  ];
  return links.length === 0 ? {} : { link: links.join(', ') };
}
