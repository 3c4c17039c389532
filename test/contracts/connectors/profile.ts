import { createHmac } from 'node:crypto';
import type { Connector } from '../../../src/connectors/connector.ts';
import type { DeliveryOrigin } from '../../../src/model/delivery.ts';
import type { ErrorCode } from '../../../src/model/errors.ts';
import type { Item, PullRequest, WorkItem } from '../../../src/model/item.ts';

type Headers = Readonly<Record<string, string>>;

export interface Exchange {
  /** `GET` unless told. */ readonly method?: 'GET' | 'POST';
  readonly path: string;
  /** The expected members of the request's JSON, if it has a body. */
  readonly sent?: Readonly<Record<string, unknown>>;
  readonly query?: Readonly<Record<string, string | string[]>>;
  readonly status?: number;
  readonly headers?: Headers;
  /** Anything but a text is sent as JSON. */
  readonly body?: unknown;
}

export function textOf({ body = '' }: Exchange): string {
  return typeof body === 'string' ? body : JSON.stringify(body);
}

export interface FixtureCase {
  readonly file: string;
  readonly source: DeliveryOrigin;
  readonly event: string;
  readonly outcome: 'items' | 'references' | 'ignored';
  readonly reason?: string;
  /** Address of the vendor's document from which it is built. Absent: captured, or reduced from a captured payload. */
  readonly document?: string;
  /** How each work item in it ended. */
  readonly endings?: readonly Pick<WorkItem, 'state' | 'isDropped' | 'closedAt'>[];
  /** Some of the facts of its first item; a fact that is `undefined` must be absent. */
  readonly facts?: Partial<PullRequest> | Partial<WorkItem>;
}

export function followedIn(options: Readonly<Record<string, unknown>>) {
  const name = ['projects', 'teams', 'repositories'].find((each) => each in options) ?? '';
  return { name, entries: options[name] as readonly string[] };
}

/** An answer that says that a limit is reached, and how long to wait for it at least. */
export function waits(
  atLeast: number,
  headers: Headers = {},
  body: unknown = '',
  status = 429,
): ConnectorProfile['limits'][string] {
  return { answer: { status, headers, body }, atLeast };
}

/** A fixture that becomes items. */
export function from(file: string, source: DeliveryOrigin, event: string): FixtureCase {
  return { file, source, event, outcome: 'items' };
}

/** A webhook that is not about what is followed. */
export function ignored(file: string, event: string, reason: string): FixtureCase {
  return { file, source: 'webhook', event, outcome: 'ignored', reason };
}

interface HmacWebhook {
  readonly header: string;
  readonly prefix?: 'sha256=';
  readonly headers?: Headers;
  /** The test vector that the vendor publishes; absent: a vector that another program computed. */
  readonly vector?: ConnectorProfile['webhook']['vector'];
  /** Requests that carry the secret or the digest in another place. */
  readonly elsewhere?: (hex: string, secret: string) => Readonly<Record<string, Headers>>;
}

/** Webhooks that are signed by an HMAC-SHA256 over the body, in hexadecimal digits. */
export function hmacWebhook(connector: Pick<Connector, 'sign'>, scheme: HmacWebhook): ConnectorProfile['webhook'] {
  const { header, prefix = '', headers = {}, elsewhere } = scheme;
  const hex = 'dfb8cf3fc9778c70386e30f5e0776d37f9ee9c8756d3cbd7df0902150644358d';
  const computed = { secret: 'shh', body: '{"a":1}', headers: { ...headers, [header]: prefix + hex } };
  const digest = (method: string, body: Buffer, secret: string, form: 'hex' | 'base64' = 'hex') =>
    createHmac(method, secret).update(body).digest(form);
  return {
    signatureHeader: header,
    required: Object.keys(headers),
    sign: (body, secret) => ({ ...headers, ...connector.sign?.(body, secret, { id: 'made-1', at: 0 }) }),
    vector: scheme.vector ?? computed,
    forgeries(body, secret) {
      const right = digest('sha256', body, secret);
      const wrong = {
        'the digest in another form': prefix === '' ? `sha256=${right}` : right,
        'another method': prefix === '' ? digest('sha1', body, secret) : `sha1=${digest('sha1', body, secret)}`,
        'another method over the right digest': `sha512=${right}`,
        'a longer digest': prefix + digest('sha512', body, secret),
        base64: prefix + digest('sha256', body, secret, 'base64'),
      };
      const placed = Object.entries(wrong).map(([name, value]) => [name, { ...headers, [header]: value }]);
      const others = Object.entries(elsewhere?.(right, secret) ?? {});
      return Object.fromEntries([...placed, ...others.map(([name, more]) => [name, { ...headers, ...more }])]);
    },
  };
}

export interface TestDelivery {
  readonly name: string;
  readonly event: string;
  readonly payload: object;
  /** Why it is ignored; absent where the vendor sends what really stands there. */
  readonly reason?: string;
}

export interface ConnectorProfile {
  readonly id: string;
  /** As in a configuration file, with a credential. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The vendor's id of what the names in those options lead to; absent where there is none that worksync must look up. */
  readonly containerId?: string;
  /** Origin of the API that those options lead to. */
  readonly origin: string;
  readonly webhook: {
    /** Header that carries the signature, in lower case. */ readonly signatureHeader: string;
    /** Three secrets of the form that the vendor gives them; any words where it gives none. */
    readonly secrets?: readonly [present: string, upcoming: string, retired: string];
    /** When the vector and what `sign` makes were sent, epoch milliseconds, where the signature tells. */
    readonly sentAt?: number;
    /** False where the vendor repeats a password, which covers no byte of the body. */
    readonly coversBody?: boolean;
    readonly required: readonly string[];
    sign(body: Buffer, secret: string): Headers;
    /** A vector that is not computed here: published by the vendor, or by a standard. */
    readonly vector: { readonly secret: string; readonly body: string; readonly headers: Headers };
    /** Further requests that must be refused, by what is wrong with them. */
    forgeries(body: Buffer, secret: string): Readonly<Record<string, Readonly<Record<string, string | string[]>>>>;
  };
  readonly fixtures: readonly FixtureCase[];
  /** Parts of webhooks that say what they are about: one without them has drifted. Any other part may be missing. */
  readonly about: readonly string[];
  /** Parts that the vendor leaves out where there is nothing, and parts in whose place others count. */
  readonly leftOut?: readonly string[];
  /** A webhook with the content of an item that not everybody may see; absent where the vendor has or sends no such thing. */
  readonly restricted?: { readonly event: string; readonly payload: object; readonly options?: object };
  /** Empty where the vendor has no such button. */
  readonly tests: readonly TestDelivery[];
  readonly poll: {
    readonly unit: string;
    readonly watermark: string;
    /** A walk with the watermark, in the order of its requests. */
    readonly walk: readonly Exchange[];
    /** The further requests of a walk, each sent once. */
    readonly besides?: readonly Exchange[];
    /** How many items that walk brings, and the highest time among them. */
    readonly items: number;
    readonly newest: string;
    /** The first request of a walk, whatever is answered. */
    readonly first: Exchange;
    /** How the vendor shows that the list is switched off; absent where it has no such switch. */
    readonly switch?: {
      /** The status of the list. */ readonly refused: 403 | 404;
      /** The request that tells, and its answers: the list is switched off; and it is not, but may not be read. */
      readonly shown: Exchange;
      readonly off: unknown;
      readonly on: unknown;
    };
    /** The validator in the first request, which is answered by 304; absent for vendors without validators. */
    readonly validator?: { readonly etag: string; readonly header: string };
    /** Headers of a page whose next page is said to lie on another host. */
    readonly foreignNext: Exchange;
  };
  readonly fetch: {
    /** `pull_request` unless told. */ readonly kind?: Item['kind'];
    readonly reference: Readonly<Record<string, string>>;
    readonly found: readonly Exchange[];
    readonly gone: readonly Exchange[];
    /** Not there, and nothing proves that it is gone. */
    readonly hidden: readonly Exchange[];
    /**
     * A reference made of a webhook that did not tell whether its item is followed: found as in `found`, or not there as in
     * `missing`. Absent where every webhook tells.
     */
    readonly unjudged?: {
      readonly reference: Readonly<Record<string, string>>;
      readonly found?: readonly Exchange[];
      readonly missing: readonly Exchange[];
    };
    /** Behind `found`: two pages of its commits, `One` the oldest and `Three` the newest; and a first page that leads elsewhere. */
    /** The pull request, the answer that contains its reviews, and what the item then contains. */
    readonly reviews?: { readonly of: Exchange; readonly answer: Exchange; readonly facts: object };
    readonly commits?: { readonly pages: readonly Exchange[]; readonly foreignNext: Exchange };
  };
  readonly limits: Readonly<Record<string, { readonly answer: Partial<Exchange>; readonly atLeast: number }>>;
  readonly statuses?: Readonly<Record<number, ErrorCode>>;
  /** A check that finds everything in order, and one with a refused credential. */
  readonly check: { readonly good: readonly Exchange[]; readonly refused: readonly Exchange[] };
}

type Poll = ConnectorProfile['poll'];
type Fetch = ConnectorProfile['fetch'];
type Unjudged = NonNullable<Fetch['unjudged']>;

/** A profile without what is the same for most vendors. */
type Given = Omit<ConnectorProfile, 'poll' | 'fetch' | 'tests' | 'limits'> &
  Partial<Pick<ConnectorProfile, 'tests' | 'limits'>> & {
    readonly poll: Omit<Poll, 'walk' | 'items' | 'watermark' | 'newest' | 'first' | 'foreignNext'> &
      Partial<Pick<Poll, 'watermark' | 'newest'>> & {
        /** Page n of five, or of so many, with two items. */ readonly page: (number: number) => Exchange;
        readonly pages?: number;
        readonly foreignNext: Partial<Exchange>;
      };
    /** A hidden item and its container answer like deleted ones. */
    readonly fetch: Omit<Fetch, 'hidden' | 'unjudged'> &
      Partial<Pick<Fetch, 'hidden'>> & { readonly unjudged?: Omit<Unjudged, 'missing'> & Partial<Unjudged> };
  };

export function profileOf({
  poll: { page, pages = 5, foreignNext, ...poll },
  fetch: { unjudged, ...fetch },
  ...given
}: Given) {
  const gone = fetch.gone as readonly [Exchange, ...Exchange[]];
  const { body: _body, headers: _headers, ...first } = page(1);
  const whole: ConnectorProfile = {
    tests: [],
    limits: {},
    ...given,
    poll: {
      watermark: '2026-03-01T00:00:00.000Z',
      newest: '2026-03-05T12:00:00.000Z',
      walk: Array.from({ length: pages }, (_, at) => page(at + 1)),
      items: 2 * pages,
      first,
      foreignNext: { ...first, ...foreignNext },
      ...poll,
    },
    fetch: {
      hidden: [...gone.slice(0, -1), { ...(gone.at(-1) as Exchange), status: 404, body: '' }],
      ...fetch,
      ...(unjudged && { unjudged: { missing: [gone[0]], ...unjudged } }),
    },
  };
  return whole;
}
