import type { Translation } from '../connectors/connector.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import { LARGE } from '../lib/large.ts';
import { withStorableTexts } from '../lib/text.ts';
import type { Item, ItemReference } from '../model/item.ts';
import { type CostlyPart, costlyParts, type PendingDelivery } from '../store/inbox.ts';
import { type Answer, readAnswer, WORKSPACE } from '../store/workspace-answers.ts';
import type { Scope } from '../store/workspace-scope.ts';
import type { Aside, Source, Sources } from './context.ts';
import { translateEvent } from './workspace-events.ts';

/** A delivery with what it becomes; translated before the transaction, since translation touches nothing. */
export interface Translated {
  readonly delivery: PendingDelivery;
  readonly source?: Source;
  readonly translation?: Translation;
  /** What the workspace itself said. */
  readonly answer?: Answer;
  /** Type of an event of the workspace that worksync does not know. */
  readonly unknownType?: string;
  readonly failure?: SyncError;
  /** Elements of a page that took more than they may; the translation is of the others. */
  readonly costly?: readonly CostlyPart[];
  /** Absent where it is the whole delivery. */
  readonly part?: Part;
}

/** A delivery that tells of many items is taken over in parts, and settled with the last one. */
interface Part {
  readonly isLast: boolean;
  /** Shared by all parts: whether any of them said something that was not outdated. */
  readonly whole: { isApplied: boolean };
}

export interface Translating {
  /** To look up what is in quarantine already. */
  readonly query: Scope;
  readonly sources: Sources;
  /** The process may have ended over it before: reading it must not end the process again. */
  readonly isSuspect: (delivery: PendingDelivery) => boolean;
}

/** Turns deliveries into what they say; failures become part of the result, so that one never stops the others. */
export async function translateAll(
  deliveries: readonly PendingDelivery[],
  translating: Translating,
): Promise<Translated[]> {
  const translated: Translated[] = [];
  for (const delivery of deliveries) translated.push(withStored(await translateOne(delivery, translating)));
  return translated;
}

/**
 * In parts of at most so many items, each of which is judged by itself. Where the process ends in between, the delivery is
 * pending still, and processing the finished parts again changes nothing.
 */
export function partsOf(translated: Translated, most: number): readonly Translated[] {
  const { translation, costly, ...common } = translated;
  if (translation?.outcome !== 'items' || translation.items.length <= most) return [translated];
  const { items, ...rest } = translation;
  const whole = { isApplied: false };
  const parts: Translated[] = [];
  for (let at = 0; at < items.length; at += most) {
    const some = items.slice(at, at + most);
    const part = { whole, isLast: at + most >= items.length };
    if (at > 0) parts.push({ ...common, translation: { outcome: 'items', items: some }, part });
    else parts.push({ ...common, ...(costly && { costly }), translation: { ...rest, items: some }, part });
  }
  return parts;
}

/** How many things it names, each of which is looked up: pages and lists of the workspace tell of many. */
export function weightOf({ translation, answer }: Translated): number {
  if (translation?.outcome === 'items') return Math.max(1, translation.items.length);
  const lists = Object.values((answer?.body ?? {}) as object).filter(Array.isArray);
  return lists.reduce((sum, list) => sum + list.length, 1);
}

export function reasonOf({ code, message }: SyncError): string {
  return `${code}: ${message}`.slice(0, 500);
}

/** Names, keys and texts of a vendor are what they will be in the store from here on: what is compared with them later comes from there. */
function withStored(translated: Translated): Translated {
  const { translation } = translated;
  return translation ? { ...translated, translation: withStorableTexts(translation) } : translated;
}

async function translateOne(delivery: PendingDelivery, translating: Translating): Promise<Translated> {
  if (delivery.connection === WORKSPACE) return translateOwn(delivery);
  const source = translating.sources.get(delivery.connection);
  if (!source) {
    const message = `no connection "${delivery.connection}" is configured any more`;
    return { delivery, failure: new SyncError('connection_unknown', message) };
  }
  try {
    const { aside } = source;
    if (!aside || (delivery.bytes <= LARGE && !translating.isSuspect(delivery)))
      return { delivery, source, translation: source.translate(delivery) };
    return { delivery, source, ...(await translateAside(delivery, aside, translating.query)) };
  } catch (error) {
    return { delivery, failure: asSyncError(error) };
  }
}

/** What the workspace said: in answer to us or to somebody at the gateway, or by a webhook of its own. */
function translateOwn(delivery: PendingDelivery): Translated {
  if (delivery.source !== 'workspace') return { delivery, answer: readAnswer(delivery.body) };
  try {
    const told = translateEvent(delivery);
    if (told.outcome === 'answer') return { delivery, answer: told.answer };
    const { unknownType, ...translation } = told;
    return { delivery, translation, ...(unknownType !== undefined && { unknownType }) };
  } catch (error) {
    return { delivery, failure: asSyncError(error) };
  }
}

type FromAside = Pick<Translated, 'translation' | 'costly'>;

/** A page that costs too much is read element by element, so that only the one at fault is left out. */
async function translateAside(delivery: PendingDelivery, aside: Aside, query: Scope): Promise<FromAside> {
  try {
    return { translation: await aside.translate(delivery) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    const isPage = delivery.source === 'poll' || delivery.source === 'backfill';
    if (error.code !== 'over_budget' || !isPage) throw error;
    const parts = await aside.parts(delivery.stored);
    if (parts.length < 2) throw error;
    const contents = parts.map(({ content }) => content);
    const known = await costlyParts(query, delivery.connection, contents);
    const read: Translation[] = [];
    const costly: CostlyPart[] = [];
    for (const { body, content } of parts.filter((part) => !known.has(part.content))) {
      const { source, event } = delivery;
      try {
        const stored = { body: Buffer.from(body), unpacked_length: null };
        read.push(await aside.translate({ source, event, stored }));
      } catch (thrownByPart) {
        const failure = asSyncError(thrownByPart);
        if (failure.code !== 'over_budget') throw failure;
        costly.push({ content, body, reason: reasonOf(failure) });
      }
    }
    return { translation: together(read), costly };
  }
}

function together(translations: readonly Translation[]): Translation {
  const items: Item[] = [];
  const references: ItemReference[] = [];
  for (const translation of translations) {
    if (translation.outcome === 'ignored') continue;
    if (translation.outcome === 'items') items.push(...translation.items);
    references.push(...(translation.references ?? []));
  }
  if (items.length > 0) return { outcome: 'items', items, references };
  if (references.length > 0) return { outcome: 'references', references };
  return { outcome: 'ignored', reason: 'nothing of the page could be read within its budget' };
}
