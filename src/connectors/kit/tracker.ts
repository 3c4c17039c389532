import { z } from 'zod';
import { type WorkItem, workItemKey } from '../../model/item.ts';
import type { Connection, ConnectionDeps, Connector } from '../connector.ts';
import { present } from './fields.ts';
import { checkUnits, createFollowed, isRefusedList } from './followed.ts';
import { parseAnswer, writeJson } from './json.ts';
import { unless } from './refusal.ts';
import { rowNames } from './row-names.ts';
import { addressOf, type Candidate, namedIn, patternsOf } from './scope.ts';
import { switchedOff, unlessOff } from './switched-off.ts';
import { locatorOf, referenceOf, rowOfGone } from './tracker-rows.ts';
import { createTranslate } from './tracker-translate.ts';
import type { Source, Tracker } from './tracker-vendor.ts';
import { emptiness, historyPage, pollPage, type Walk } from './walk.ts';

/** The connector of a tracker: what all of them do alike, from what each says of itself. */
export function trackerConnector<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
): Connector<Options> {
  return {
    ...tracker,
    capabilities: { ...tracker.capabilities, workItems: true },
    translate: createTranslate(tracker),
    reference: (item) => referenceOf(tracker, item as WorkItem),
    namesIn: (given) => namedIn(tracker.scopeOf(given)),
    connect: (given, deps) => connect(tracker, given, deps),
  };
}

function connect<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
  options: Options,
  deps: ConnectionDeps,
): Connection {
  const source = tracker.connect(options, deps);
  const { candidate, unitBy, container } = tracker;
  const scope = tracker.scopeOf(options);
  const all = { name: patternsOf(scope).join(', '), read: (signal: AbortSignal) => source.containers(signal) };
  const find = (unit: string, signal: AbortSignal) => source.container(unit, signal);
  const now = (unit: string, signal: AbortSignal) => (source.present ?? source.container)(unit, signal);
  const unitOf = (each: Candidate) => each[unitBy];
  const known = createFollowed({ scope, clock: deps.clock, lists: [all], candidate, unitOf });
  const { units, requireReadable } = known;
  const list: Source<Container>['list'] = async (wanted, signal) => {
    requireReadable(wanted.unit);
    const { offIn } = source;
    if (!offIn) return source.list(wanted, signal);
    return unlessOff(
      () => source.list(wanted, signal),
      async () => offIn(await now(wanted.unit, signal)),
    );
  };
  const walk = walkOf(tracker, { ...source, list });

  async function followed(signal: AbortSignal): Promise<readonly Container[]> {
    const found: Container[] = [];
    for (const unit of await units(signal))
      if (!isRefusedList(unit)) found.push(await find(addressOf(unit, scope), signal));
    return found;
  }

  const connection: Connection = {
    units,
    poll: (position, signal) => pollPage(walk, position, signal),
    async identify(name, signal) {
      const seen = candidate(await now(name, signal));
      return { id: seen.id, name: seen.name };
    },
    fetch: createFetch(tracker, source, now, deps),
    check: (signal) => checkUnits(container, source, scope, known, signal),
    history: (position, signal) => historyPage(walk, position, signal),
    async sweep(unit, page, signal) {
      requireReadable(unit);
      const { id: containerId } = candidate(await find(unit, signal));
      const selection = { items: 'ids', containerId } as const;
      const listed = await list({ unit, selection, page, use: 'background' }, signal);
      const { found, next } = listed;
      const what = `the items of ${unit}`;
      const ids = tracker.idsOf ? tracker.idsOf(found, what, options) : idsIn(tracker, found, what);
      const keys = ids.map((id) => workItemKey(tracker.id, tracker.host(options), id));
      return { keys, containers: [containerId], ...present({ next }), ...emptiness(listed) };
    },
    comment: (wanted, comment, signal) => source.comment(locatorOf(tracker, wanted), comment, signal),
    close: (wanted, signal, fields) => source.close(locatorOf(tracker, wanted), wanted.key, signal, fields),
    ...(source.hooks && { hooks: source.hooks(followed) }),
  };
  return { ...connection, ...source.extend?.(connection) };
}

function idsIn(
  { itemId }: Pick<Tracker<unknown, unknown, unknown>, 'itemId'>,
  found: readonly unknown[],
  what: string,
) {
  const id = z.union([z.string(), z.int()]).transform(String).pipe(itemId.shape);
  return parseAnswer(z.array(z.object({ id })), found, what).map((each) => each.id);
}

function walkOf<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
  source: Source<Container>,
): Walk {
  const event = rowNames(tracker.noun).list;
  return {
    ...tracker,
    list: (wanted, signal) => source.list(wanted, signal),
    async write(found, signal) {
      return { event, body: writeJson(source.pageOf ? await source.pageOf(found, signal) : found) };
    },
  };
}

/**
 * Gets one item by its id, which survives moves. Calls the item gone only where this credential sees its container now: an
 * item that it may no longer see looks the same.
 */
function createFetch<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
  source: Source<Container>,
  now: Source<Container>['container'],
  { clock }: ConnectionDeps,
): Connection['fetch'] {
  const shapes = rowNames(tracker.noun);
  return async (wanted, signal) => {
    const locator = locatorOf(tracker, wanted);
    const { id, container, identifier, isFollowed } = locator;
    const looked = (await unless(source.item(locator, signal), 'not_found')) ?? { isGone: false };
    if (looked.found !== undefined) {
      const body = writeJson(looked.found);
      return { event: isFollowed ? shapes.judged : shapes.item, body };
    }
    // worksync has nothing of it, and nobody can tell whether it is gone or hidden.
    if (container === undefined || identifier === undefined) return { event: shapes.missing, body: writeJson({}) };
    const place = looked.isGone ? undefined : await now(container, signal);
    const off = place && source.offIn?.(place);
    if (off !== undefined) throw switchedOff(off);
    const seenAt = new Date(clock.now()).toISOString();
    const gone = { id, container, identifier, seenAt, place: isFollowed && place };
    return { event: shapes.gone, body: writeJson(rowOfGone(tracker, gone)) };
  };
}
