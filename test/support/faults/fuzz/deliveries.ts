import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Connector } from '../../../../src/connectors/connector.ts';
import { connectors } from '../../../../src/connectors/registry.ts';
import type { Delivery, DeliveryOrigin } from '../../../../src/model/delivery.ts';
import { boundNames } from '../../../../src/model/names.ts';
import { PROFILES } from '../../../contracts/connectors/index.ts';
import type { ConnectorProfile } from '../../../contracts/connectors/profile.ts';
import { isDeep, sampleOf } from '../../harness/depth.ts';
import { changedAt, type Place, partAt, placesOf, type Tree, treeOf } from './json-tree.ts';
import { bytesOf } from './mutations.ts';

/** A delivery as it was captured, or as the vendor's library documents it. */
export interface Sample {
  readonly name: string;
  readonly source: DeliveryOrigin;
  readonly event: string;
  readonly payload: Tree;
  /** Larger than a captured one by far. */
  readonly isPublished?: true;
}

/** A vendor, a connection to it that follows one place, and that place. */
export interface Victim {
  readonly id: string;
  readonly profile: ConnectorProfile;
  readonly connector: Connector<unknown>;
  readonly options: unknown;
  readonly home: string;
  readonly samples: readonly Sample[];
}

const FOLDER = new URL('../../../../src/connectors/', import.meta.url);

export const VICTIMS: readonly Victim[] = PROFILES.map(victimOf);

function victimOf(profile: ConnectorProfile): Victim {
  const { id } = profile;
  const connector = connectors.find((each) => each.id === id) as Connector<unknown>;
  const plain = connector.options.parse(profile.options);
  const samples = profile.fixtures.map(({ file, source, event }) => {
    const text = readFileSync(new URL(`${id}/fixtures/${file}.json`, FOLDER), 'utf8');
    return { name: file, source, event, payload: treeOf(JSON.parse(text)) };
  });
  const home = homeOf(connector, plain, samples);
  const bindings = (connector.namesIn?.(plain) ?? []).map((called) => ({
    entry: called.toLowerCase(),
    id: home,
    called,
  }));
  const options = { ...(plain as object), names: boundNames(bindings) };
  return { id, profile, connector, options, home, samples: id === 'github' ? [...samples, ...published()] : samples };
}

function homeOf(connector: Connector<unknown>, options: unknown, samples: readonly Sample[]): string {
  const fetched = samples.find(({ name }) => name.endsWith('.get')) as Sample;
  const found = connector.translate(deliveryOf(fetched), options);
  const item = found.outcome === 'items' ? found.items[0] : undefined;
  if (!item) throw new Error(`${connector.id}: the captured fetch brings nothing`);
  return item.kind === 'pull_request' ? item.repoId : item.containerId;
}

/** Examples of GitHub's own library for the followed events: one for each action, moved to the followed repository. */
function published(): readonly Sample[] {
  const followed = new Set([
    'pull_request',
    'pull_request_review',
    'pull_request_review_comment',
    'issue_comment',
    'issues',
  ]);
  const seen = new Set<string>();
  const root = createRequire(import.meta.url).resolve('@octokit/webhooks-examples/package.json');
  const text = readFileSync(root.replace('package.json', 'api.github.com/index.json'), 'utf8');
  const groups = JSON.parse(text) as readonly {
    readonly name: string;
    readonly examples: readonly { readonly action?: string }[];
  }[];
  return groups
    .filter(({ name }) => followed.has(name))
    .flatMap(({ name: event, examples }) => examples.map((example) => ({ event, example })))
    .flatMap(({ event, example }): Sample[] => {
      const name = `${event}.${example.action}`;
      if (seen.has(name)) return [];
      seen.add(name);
      const body = JSON.stringify(example)
        .replaceAll('"Codertocat/Hello-World"', '"acme/api"')
        .replaceAll(':186853002,', ':70100,');
      return [{ name, source: 'webhook', event, payload: treeOf(JSON.parse(body)), isPublished: true }];
    });
}

export function deliveryOf({ source, event, payload }: Sample, body = bytesOf(payload, { does: 'nothing' })) {
  return { source, event, body } satisfies Pick<Delivery, 'source' | 'event' | 'body'>;
}

export function outcomeOf(
  { connector, options }: Victim,
  delivery: Pick<Delivery, 'source' | 'event' | 'body'>,
): string {
  try {
    return JSON.stringify(connector.translate(delivery, options));
  } catch (error) {
    return String(error);
  }
}

/** None of these is what stands anywhere. */
const ALL_PROBES = [
  ...['null', '7', '"2001-02-03T04:05:06Z"', '"https://probe.example/1"', '{"id":3,"name":"n"}', '[]', 'true', '-1'],
  ...['""', 'false', '{}', '"probe"', '[{"id":4}]'],
];

const PROBES = sampleOf(ALL_PROBES, 3);

/** How many kinds of a payload are tried at once: each with other values in each place. */
const KINDS = isDeep ? 5 : 2;

/**
 * The places of a payload that may change what becomes of it, and the values in it that do not, also where all of them are other
 * ones: where something is told twice, one of the two is read.
 */
export function readPlaces(
  victim: Victim,
  sample: Sample,
): { readonly read: readonly Place[]; readonly unread: readonly Place[] } {
  const honest = outcomeOf(victim, deliveryOf(sample));
  const isSame = (payload: Tree) => outcomeOf(victim, deliveryOf({ ...sample, payload })) === honest;
  let others = Array.from({ length: KINDS }, () => sample.payload);
  const read: Place[] = [];
  const unread: Place[] = [];
  for (const [at, place] of placesOf(sample.payload).entries()) {
    const [first, ...rest] = others as [Tree, ...Tree[]];
    const probed = (tree: Tree, by: number) =>
      changedAt(tree, place, () => ({ kind: 'text', json: PROBES[by % PROBES.length] as string }));
    const next = [probed(first, at), ...rest.map((tree, n) => probed(tree, at * (n + 2)))];
    const isValue = partAt(sample.payload, place)?.kind === 'text';
    const isNothing = [sample.payload, first].every((tree) => PROBES.every((_, by) => isSame(probed(tree, by))));
    if (isValue && isNothing && next.every(isSame)) {
      unread.push(place);
      others = next;
    } else read.push(place);
  }
  return { read, unread };
}
