import type { Connection, Connector, PollPosition } from '../../../src/connectors/connector.ts';
import type { Item } from '../../../src/model/item.ts';
import type { HttpAnswer, HttpClient, HttpRequest } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import type { TravellingClock } from '../fakes/travelling-clock.ts';
import { documentedOnly } from '../vendors/vendor-requests/index.ts';

interface Provider {
  readonly clock: TravellingClock;
  readonly requests: readonly unknown[];
  request(request: HttpRequest): Promise<HttpAnswer>;
}

interface MirrorSetting<Options> {
  readonly connector: Pick<Connector<Options>, 'connect' | 'translate'>;
  readonly options: Options;
  readonly unit: string;
  readonly provider: Provider;
  /** Larger where an item is newer; absent: its time of change says it. */
  readonly order?: (item: Item) => string | number;
}

/** More pages than any of the lists has. */
const WITHOUT_END = 200;

/** A poll as the core does it: positions, watermark and items, each page stored with its position. */
export class PollMirror<Options> {
  readonly known = new Map<string, Item>();
  position: { watermark?: string; etag?: string } = {};
  readonly connection: Connection;
  readonly #setting: MirrorSetting<Options>;

  constructor(setting: MirrorSetting<Options>) {
    this.#setting = setting;
    const { connector, options, provider } = setting;
    const http: HttpClient = documentedOnly({
      request: (request: HttpRequest) => provider.request(request),
      close: async () => {},
    });
    this.connection = connector.connect(options, { http, clock: provider.clock, logger: silentLogger });
  }

  /** One whole walk; the number of its requests. */
  async walk(): Promise<number> {
    const { unit, provider } = this.#setting;
    const before = provider.requests.length;
    const asked = () => provider.requests.length - before;
    const startedAt = new Date(provider.clock.now()).toISOString();
    let candidate = this.position.watermark;
    let { etag } = this.position;
    let page: string | undefined;
    do {
      const position: PollPosition = { unit, ...this.position, page, startedAt };
      const got = await this.connection.poll(position, new AbortController().signal);
      if (got.outcome === 'unchanged') {
        if (this.position.etag === undefined) throw new Error('unchanged, and nobody asked whether it is');
        return asked();
      }
      this.#take(got.event, got.body);
      candidate = [candidate ?? '', got.newest ?? ''].toSorted().at(-1) || undefined;
      if (page === undefined) etag = got.etag;
      if (got.next !== undefined && got.next === page) throw new Error(`${page} names itself`);
      page = got.next;
      if (asked() > WITHOUT_END) throw new Error('a walk without end');
    } while (page !== undefined);
    this.position = { watermark: candidate, etag };
    return asked();
  }

  #take(event: string, body: Buffer): void {
    const { connector, options, order = ({ updatedAt }) => updatedAt } = this.#setting;
    const translation = connector.translate({ source: 'poll', event, body }, options);
    if (translation.outcome !== 'items') throw new Error(translation.outcome);
    for (const item of translation.items) {
      const held = this.known.get(item.identifier);
      if (!held || order(held) <= order(item)) this.known.set(item.identifier, item);
    }
  }

  get states(): Record<string, string | undefined> {
    return Object.fromEntries([...this.known.values()].map(({ identifier, state }) => [identifier, state]));
  }
}
