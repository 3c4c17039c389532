import { hash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ItemKey } from '../../../../src/model/item.ts';
import type { Clock } from '../../../../src/platform/lib/clock.ts';
import type { Fields, Line } from '../../../bench/quota/references/trace.ts';

/** A pull request as a provider holds it. Times are epoch milliseconds. */
export interface HeldPull {
  readonly number: number;
  readonly fields: Fields;
  readonly created: number;
  readonly updated: number;
  readonly merged: number | null;
}

export interface IssueFields {
  readonly title: string;
  readonly description: string;
  readonly state: 'open' | 'done';
  readonly labels: readonly string[];
}

/** A work item as a tracker holds it. Times are epoch milliseconds. */
export interface HeldIssue {
  readonly number: number;
  readonly fields: IssueFields;
  readonly created: number;
  readonly updated: number;
  readonly isDeleted: boolean;
}

/** All that one vendor holds. Deleted work items are among them: some vendors still tell of those. */
export interface Held {
  readonly pulls: ReadonlyMap<number, HeldPull>;
  readonly issues: ReadonlyMap<number, HeldIssue>;
}

export interface Hook {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Expected content of a record of the workspace. */
export interface ExpectedRecord extends Readonly<Record<string, unknown>> {
  readonly provider: string;
  readonly identifier: string;
}

/** One request, as a vendor's API is asked. */
export interface Asked {
  readonly method: string;
  readonly url: URL;
  readonly body: string;
}

/** How one vendor shows what it holds. All in it is what the vendor's API and webhooks say, no more. */
interface Api {
  readonly id: string;
  /** The vendor's own part of a connection. */
  options(apiUrl: string): Readonly<Record<string, unknown>>;
  /** Undefined: 404. */
  answer(asked: Asked, held: Held): VendorAnswer | undefined;
}

/** A vendor of a repository of pull requests. */
export interface Vendor extends Api {
  /** Mirrored fields of a pull request, as far as a webhook or an answer of the API contains them. */
  said(pull: HeldPull, by: 'hook' | 'api'): Readonly<Record<string, unknown>>;
  hook(pull: HeldPull, event: string, delivery: string): Hook;
  record(pull: HeldPull): ExpectedRecord;
}

/** An event of a work item, and the time of its webhook. */
export interface Happening {
  readonly event: 'created' | 'updated' | 'deleted';
  readonly delivery: string;
  readonly sentAt: number;
}

/** A vendor of a project of work items. */
export interface Tracker extends Api {
  /** Secret of its webhooks. */ readonly secret: string;
  /** Undefined where the vendor sends none for it. */
  issueHook(issue: HeldIssue, happening: Happening): Hook | undefined;
  itemKey(issue: HeldIssue): ItemKey;
  /** The address of its page, as people paste it. */
  page(issue: HeldIssue): string;
  /** How people at a vendor of pull requests call it. */
  calledAt(vendor: string, issue: HeldIssue): string;
}

export interface VendorAnswer {
  readonly body: unknown;
  /** 200 unless told. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** The pull requests that the answer shows. */
  readonly shown?: readonly HeldPull[];
}

/** A provider that remembers what it told the daemon and when. */
export interface ProviderState<Shown extends Api = Vendor> extends Held {
  readonly vendor: Shown;
  /** Requests that the vendor does not know. */
  readonly unanswered: string[];
  /** Something happens there, in a day that began then. */
  happen(line: Line, day: number): HeldPull;
  /** A work item is created, or becomes otherwise, now. */
  change(number: number, change: Partial<IssueFields> | 'deleted'): HeldIssue;
  answer(asked: Asked, headers: Readonly<Record<string, string | string[] | undefined>>): WholeAnswer;
}

/** An answer as it goes over the wire. */
export interface WholeAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** One that stands on loopback. */
export interface Provider<Shown extends Api = Vendor> extends Omit<ProviderState<Shown>, 'answer'> {
  readonly url: string;
  close(): Promise<void>;
}

interface Surroundings {
  readonly clock: Pick<Clock, 'now'>;
  /** Called with each state that an answer of the API shows. */
  readonly told?: (pull: HeldPull) => void;
  /** Called with each request, before it is answered. */
  readonly asked?: (asked: Asked) => void | Promise<void>;
}

export function createProvider<Shown extends Api>(
  vendor: Shown,
  { clock, told }: Pick<Surroundings, 'clock' | 'told'>,
): ProviderState<Shown> {
  const pulls = new Map<number, HeldPull>();
  const issues = new Map<number, HeldIssue>();
  const unanswered: string[] = [];

  return {
    ...{ vendor, pulls, issues, unanswered },
    answer(asked, { 'if-none-match': known }) {
      const headers = { date: new Date(clock.now()).toUTCString(), 'content-type': 'application/json' };
      const answer = vendor.answer(asked, { pulls, issues });
      if (!answer) {
        unanswered.push(`${asked.method} ${asked.url.pathname}${asked.url.search}`);
        return { status: 404, headers, body: '{"message":"Not Found"}' };
      }
      const body = JSON.stringify(answer.body);
      const etag = `"${hash('sha256', body, 'hex').slice(0, 16)}"`;
      if (known === etag) return { status: 304, headers: { ...headers, etag }, body: '' };
      for (const pull of answer.shown ?? []) told?.(pull);
      return { status: answer.status ?? 200, headers: { ...headers, etag, ...answer.headers }, body };
    },
    happen({ item, fields, at }, day) {
      const number = Number(item.split('/')[1]);
      const updated = Math.floor(day + at * 1_000);
      const before = pulls.get(number);
      const merged = before?.merged ?? (fields.state === 'merged' ? updated : null);
      const pull = { number, fields, updated, created: before?.created ?? updated, merged };
      pulls.set(number, pull);
      return pull;
    },
    change(number, change) {
      const updated = clock.now();
      const before = issues.get(number) ?? { fields: BLANK, created: updated };
      const fields = change === 'deleted' ? before.fields : { ...before.fields, ...change };
      const issue = { number, fields, updated, created: before.created, isDeleted: change === 'deleted' };
      issues.set(number, issue);
      return issue;
    },
  };
}

export async function openProvider<Shown extends Api>(
  vendor: Shown,
  surroundings: Surroundings,
): Promise<Provider<Shown>> {
  const { answer, ...state } = createProvider(vendor, surroundings);

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = Buffer.concat(await request.toArray()).toString();
    const asked = { method: request.method ?? 'GET', url: new URL(request.url ?? '/', url), body };
    response.sendDate = false;
    await surroundings.asked?.(asked);
    const given = answer(asked, request.headers);
    response.writeHead(given.status, given.headers).end(given.body);
  }

  const server = createServer((request, response) => void respond(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    ...state,
    url,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

const BLANK: IssueFields = { title: '', description: '', state: 'open', labels: [] };

/** Message of the newest commit: another one after each push. */
export function messageOf({ fields }: HeldPull): string {
  return `Work up to ${fields.head}`;
}

/** The fields that every vendor has, and says everywhere. */
export function mirrored({ title, description, state, draft, reviewers }: Fields) {
  return { title, description, state, draft, reviewers: reviewers.toSorted() };
}

/** Names of a pull request, in the order of a record. */
export function named({ labels, assignees }: Fields) {
  return { labels: labels.toSorted(), assignees: assignees.toSorted() };
}

/** The record of a pull request in the workspace, as far as all vendors share it. */
export function recordOf({ number, fields }: HeldPull, provider: string, repoId: string) {
  const branches = { headBranch: `branch-${number}`, baseBranch: 'main' };
  return { provider, repoId, identifier: String(number), ...mirrored(fields), ...branches };
}

/** Fields by which every list can be ordered. */
interface Listed {
  readonly number: number;
  readonly created: number;
  readonly updated: number;
}

/** The elements that a list shows, ordered and cut into pages. */
export function listed<Element extends Listed>(
  elements: Iterable<Element>,
  wish: {
    readonly where: (element: Element) => boolean;
    readonly by: 'updated' | 'created' | 'number';
    readonly isDescending: boolean;
    readonly page: number;
    readonly perPage: number;
  },
): { readonly shown: readonly Element[]; readonly hasNext: boolean; readonly lastPage: number } {
  const { where, by, isDescending, page, perPage } = wish;
  const sign = isDescending ? -1 : 1;
  const found = [...elements].filter(where).sort((a, b) => sign * (a[by] - b[by] || a.number - b.number));
  const shown = found.slice((page - 1) * perPage, page * perPage);
  return { shown, hasNext: page * perPage < found.length, lastPage: Math.max(1, Math.ceil(found.length / perPage)) };
}

/** Answer about an item that does not exist any more. */
export const NO_MORE: VendorAnswer = { status: 404, body: { message: 'Not Found' } };

/** Issues that still exist. */
export function present(issues: ReadonlyMap<number, HeldIssue>): readonly HeldIssue[] {
  return [...issues.values()].filter(({ isDeleted }) => !isDeleted);
}

export function isPull(element: HeldPull | HeldIssue): element is HeldPull {
  return 'merged' in element;
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
