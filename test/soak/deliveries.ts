import type { Connector, SampleEvent } from '../../src/connectors/connector.ts';
import { TRIAL, TRIAL_NUMBER, TRIAL_TEXT } from '../../src/connectors/kit/sample.ts';
import { connectors } from '../../src/connectors/registry.ts';
import type { Binding } from '../../src/model/names.ts';
import type { Clock } from '../../src/platform/lib/clock.ts';
import { WORKSPACE } from '../bench/daemon.ts';
import { createChance } from '../bench/quota/references/chance.ts';

export type Request = readonly [head: Buffer, body: Buffer];

const SECRET = 'a webhook secret for the soak only';
/** The repository in scope, by id, because no vendor is there to look it up. */
const SCOPES = {
  github: { scope: { repositories: ['soak/app'] }, id: '77' },
  gitlab: { scope: { projects: ['77'] }, id: '77' },
  bitbucket: { scope: { repositories: ['soak/app'] }, id: '{00000000-0000-4000-8000-000000000077}' },
  sentry: { scope: { organization: 'soak', projects: ['77'] }, id: '77' },
};

/** Vendors tell times in seconds. Two contents of one time are a doubt, for which worksync would ask the vendor. */
const SECOND = 1_000;

const ITEMS = 500;
/** Shares of what comes: the same delivery once more, and another one that says the same. */
const REPEATED = 0.15;
const UNCHANGED = 0.25;
const REMEMBERED = 500;
/** One in so many is long enough to be packed. */
const LONG = 5;
const PROSE = 'What this changes, and why it had to be changed now. '.repeat(120);

export const CONNECTIONS = Object.fromEntries(
  Object.entries(SCOPES).map(([connector, { scope }]) => [
    connector,
    { connector, ...scope, webhookSecrets: SECRET, poll: 'off', sweep: 'off' },
  ]),
);

interface Sender {
  readonly name: string;
  readonly connector: Connector<unknown>;
  readonly event: SampleEvent<unknown>;
  readonly options: unknown;
  readonly bindings: readonly Binding[];
  /** How often each item has changed, and when somebody last did something to it, epoch milliseconds. */
  readonly changes: number[];
  readonly times: number[];
}

/** Deliveries of all connections without end: of the same items, most of them changed, some repeated. */
export async function createDeliveries(port: number, clock: Clock): Promise<() => Request> {
  const senders = await Promise.all(Object.entries(SCOPES).map(([name, { scope, id }]) => senderOf(name, scope, id)));
  const chance = createChance(1).float;
  const recent: Request[] = [];
  let made = 0;

  function make(): Request {
    const sender = senders[made++ % senders.length] as Sender;
    const item = Math.floor(chance() * ITEMS);
    if (chance() >= UNCHANGED) sender.changes[item] = (sender.changes[item] ?? 0) + 1;
    const at = Math.max(clock.now(), (sender.times[item] ?? 0) + SECOND);
    sender.times[item] = at;
    const moment = { at, id: `soak-${made}`, bindings: sender.bindings };
    const body = bodyOf(sender, item, moment);
    const headers = { ...sender.event.headers, ...sender.connector.sign?.(body, SECRET, moment) };
    const lines = Object.entries({ ...headers, 'x-request-uuid': moment.id }).map(
      (header) => `${header.join(': ')}\r\n`,
    );
    const head = `POST /webhooks/${WORKSPACE}/${sender.name} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n`;
    return [Buffer.from(`${head}Content-Length: ${body.length}\r\n${lines.join('')}\r\n`), body];
  }

  return () => {
    const old = chance() < REPEATED ? recent[Math.floor(chance() * recent.length)] : undefined;
    if (old) return old;
    const request = make();
    recent[made % REMEMBERED] = request;
    return request;
  };
}

async function senderOf(name: string, scope: object, id: string): Promise<Sender> {
  const connector = connectors.find((each) => each.id === name) as Connector<unknown>;
  const [event] = Object.values((await connector.samples?.()) ?? {});
  if (!event) throw new Error(`there is no sample of ${name}`);
  const bindings = [{ entry: 'soak/app', id, called: 'soak/app' }];
  return { name, connector, event, bindings, options: connector.options.parse(scope), changes: [], times: [] };
}

function bodyOf(
  { event, options, changes }: Sender,
  item: number,
  moment: Parameters<typeof event.payload>[1],
): Buffer {
  const text = JSON.stringify(event.payload(options, moment))
    .replaceAll(String(TRIAL_NUMBER), String(item + 1))
    .replaceAll(`"${TRIAL}"`, `"Item ${item}, change ${changes[item] ?? 0}"`);
  return Buffer.from(item % LONG === 0 ? text.replace(JSON.stringify(TRIAL_TEXT), JSON.stringify(PROSE)) : text);
}
