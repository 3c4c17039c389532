import type { Connector, SampleContext, SampleEvent } from '../../connectors/connector.ts';
import { SyncError } from '../../model/errors.ts';
import { type Binding, boundNames } from '../../model/names.ts';
import { sha256Of } from '../../platform/lib/digest.ts';
import { unknownName } from '../named.ts';

export interface Tried {
  readonly name: string;
  readonly connector: Connector<unknown>;
  readonly options: unknown;
  readonly secrets: readonly string[];
}

export type SampleDelivery = Awaited<ReturnType<typeof makeSample>>;

export async function samplesOf({ connector }: Tried): Promise<Readonly<Record<string, SampleEvent<unknown>>>> {
  if (connector.samples) return connector.samples();
  throw new SyncError('usage', `there is no sample event of ${connector.title}`);
}

/**
 * Makes a sample event, as the vendor would post it, and signs it with the connection's first secret. Returns also the key by which the
 * stored delivery is found, and the result of its translation. Throws `usage` if there is no such event,
 * `secret_missing`, and `refused` if no id of the scope is known.
 */
export async function makeSample(tried: Tried, name: string, context: SampleContext) {
  const { connector, options, secrets } = tried;
  const sample = eventNamed(await samplesOf(tried), name);
  const [secret] = secrets;
  if (secret === undefined)
    throw new SyncError('secret_missing', `${tried.name} has no webhook secret, so it accepts no webhooks`);
  const body = Buffer.from(JSON.stringify(sample.payload(options, context)));
  const signature = connector.sign?.(body, secret, context);
  const headers = { 'content-type': 'application/json', ...sample.headers, ...signature };
  const { event, deliveryId } = await connector.verify({ headers, body }, secrets, context.at);
  const known = { ...(options as object), names: boundNames(context.bindings) };
  const translation = connector.translate({ source: 'webhook', event, body }, known);
  return { event, headers, body, key: deliveryId ?? (await sha256Of(body)), translation };
}

function eventNamed(events: Readonly<Record<string, SampleEvent<unknown>>>, name: string): SampleEvent<unknown> {
  const found = Object.hasOwn(events, name) ? events[name] : undefined;
  if (found) return found;
  throw unknownName('sample event', name, Object.keys(events));
}

/** Adds the id that a person gives for the first name without a known id. Throws `usage` if there is no such name. */
export function withGivenId(
  { connector, options }: Tried,
  bindings: readonly Binding[],
  id: string | undefined,
): readonly Binding[] {
  if (id === undefined) return bindings;
  const names = connector.namesIn?.(options) ?? [];
  const unbound = names.find((name) => !bindings.some(({ entry }) => entry === name.toLowerCase()));
  const isKnown = bindings.some((each) => each.id === id);
  if (unbound === undefined && isKnown) return bindings;
  if (unbound === undefined)
    throw new SyncError('usage', '--id: no name of this connection needs an id', {
      hint: 'Run the command again without --id: the sample then has an id that worksync knows.',
    });
  return [...bindings, { entry: unbound.toLowerCase(), id, called: unbound }];
}
