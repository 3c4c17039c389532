import { z } from 'zod';
import type { Delivery } from '../../model/delivery.ts';
import type { WorkItem } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present } from './fields.ts';
import { identityOf } from './identity.ts';
import { read, readJson } from './json.ts';
import { itemsOrReferences, NOT_FOLLOWED, NOT_FOUND, outOfScope } from './outcome.ts';
import { rowNames } from './row-names.ts';
import { type Candidate, inScope } from './scope.ts';
import { readGone, referenceOf, referenceToTold } from './tracker-rows.ts';
import type { Tracker, WebhookFacts } from './tracker-vendor.ts';

const WHOLE: readonly (keyof WorkItem)[] = ['state', 'title', 'description'];

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function createTranslate<Options, Found, Container>(tracker: Tracker<Options, Found, Container>) {
  const names = rowNames(tracker.noun);
  const { whole = WHOLE } = tracker;
  const isWhole = (item: WorkItem) => whole.every((field) => item[field] !== undefined);

  const refused = (place: Candidate, options: Options) =>
    inScope(place, tracker.scopeOf(options)) ? undefined : outOfScope(tracker.container.word);

  function ofWebhook(event: string, payload: unknown, options: Options): Translation {
    const told = tracker.parseWebhook(payload, options, event);
    if (told === undefined) return NOT_FOLLOWED;
    if ('outcome' in told) return told;
    const { container } = told;
    // The names and patterns of a scope decide only where the name is told: else what is fetched is judged.
    if (container?.name === undefined) return toBeJudged(told, options);
    return refused({ id: container.id, name: container.name }, options) ?? taken(told, options);
  }

  function toBeJudged(told: WebhookFacts, options: Options): Translation {
    const reference = referenceToTold(tracker, tracker.host(options), { ...told, isFollowed: 'unknown' });
    return { outcome: 'references', references: [reference], ...present({ comment: told.comment }) };
  }

  function taken(told: WebhookFacts, options: Options): Translation {
    const { id, identifier, container, item, goneAt, comment } = told;
    const host = tracker.host(options);
    if (goneAt !== undefined && container && identifier !== undefined) {
      const identity = identityOf(tracker.id, host, { id, container: container.id, identifier });
      return { outcome: 'items', items: [{ ...identity, updatedAt: goneAt, gone: true }] };
    }
    if (item) return itemsOrReferences([item], isWhole, (each) => referenceOf(tracker, each));
    return { outcome: 'references', references: [referenceToTold(tracker, host, told)], ...present({ comment }) };
  }

  /** worksync asked for pages and fetched objects, so they are in scope, also after a move. */
  const ofRead: ReadonlyMap<string, (payload: unknown, options: Options) => Translation> = new Map([
    [names.list, list],
    [names.item, fetched],
    [names.judged, judged],
    [names.gone, gone],
    [names.missing, () => NOT_FOUND],
  ]);

  /** Taken as they are, even with fields absent: another request would bring the same. */
  function list(payload: unknown, options: Options): Translation {
    const found = tracker.itemsOnPage?.(payload) ?? read(z.array(tracker.found), payload);
    return { outcome: 'items', items: found.map((each) => tracker.itemOf(each, options)) };
  }

  function fetched(payload: unknown, options: Options): Translation {
    const found = read(tracker.found, payload);
    return tracker.needsScopeCheck?.(found)
      ? judge(found, options)
      : { outcome: 'items', items: [tracker.itemOf(found, options)] };
  }

  /** An event reported this item, and did not tell whether it is in scope. */
  function judged(payload: unknown, options: Options): Translation {
    return judge(read(tracker.found, payload), options);
  }

  function judge(found: Found, options: Options): Translation {
    return (
      refused(tracker.containerOf(found), options) ?? { outcome: 'items', items: [tracker.itemOf(found, options)] }
    );
  }

  function gone(payload: unknown, options: Options): Translation {
    const { seenAt, place, ...row } = readGone(tracker, payload);
    const told = place === undefined || !tracker.containerShape ? undefined : read(tracker.containerShape, place);
    const identity = identityOf(tracker.id, tracker.host(options), row);
    return (
      (told === undefined ? undefined : refused(tracker.candidate(told), options)) ?? {
        outcome: 'items',
        items: [{ ...identity, updatedAt: Date.parse(seenAt), gone: true }],
      }
    );
  }

  return ({ source, event, body }: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation => {
    if (source === 'webhook') return tracker.follows(event) ? ofWebhook(event, readJson(body), options) : NOT_FOLLOWED;
    return ofRead.get(event)?.(readJson(body), options) ?? NOT_FOLLOWED;
  };
}
