import type { Translation } from '../../connectors/connector.ts';
import type { Delivery } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { Item, ItemReference } from '../../model/item.ts';
import { LARGE } from '../../platform/lib/large.ts';
import { withStorableTexts } from '../../platform/lib/text.ts';
import { costlyParts, type PendingDelivery, type RejectedPart } from '../../store/inbox.ts';
import { type Answer, readAnswer, WORKSPACE } from '../../store/workspace-answers.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { PagePart, Source, Sources, WorkerTranslator } from './context.ts';
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
  /** Elements of a page that could not be read; the translation is of the others. */
  readonly rejected?: readonly RejectedPart[];
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
  const { translation, rejected, ...common } = translated;
  if (translation?.outcome !== 'items' || translation.items.length <= most) return [translated];
  const { items, ...rest } = translation;
  const whole = { isApplied: false };
  const parts: Translated[] = [];
  for (let at = 0; at < items.length; at += most) {
    const some = items.slice(at, at + most);
    const part = { whole, isLast: at + most >= items.length };
    if (at > 0) parts.push({ ...common, translation: { outcome: 'items', items: some }, part });
    else parts.push({ ...common, ...(rejected && { rejected }), translation: { ...rest, items: some }, part });
  }
  return parts;
}

/** How many things it names, each of which is looked up: pages and lists of the workspace tell of many. */
export function weightOf({ translation, answer }: Translated): number {
  if (translation?.outcome === 'items') return Math.max(1, translation.items.length);
  const lists = Object.values((answer?.body ?? {}) as object).filter(Array.isArray);
  return lists.reduce((sum, list) => sum + list.length, 1);
}

/** @param place where the fault lies in the delivery */
export function reasonOf({ code, message }: SyncError, place = ''): string {
  return `${code}: ${place}${message}`.slice(0, 500);
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
  const { aside } = source;
  const isAside = aside !== undefined && (delivery.bytes > LARGE || translating.isSuspect(delivery));
  const translate = async (body: PendingDelivery['stored'] | undefined): Promise<Translation> => {
    if (isAside) return aside.translate(body ? { ...named(delivery), stored: body } : delivery);
    return source.translate(body ? { ...named(delivery), body: body.body } : delivery);
  };
  try {
    return { delivery, source, ...(await translatePage(delivery, { translate, aside, query: translating.query })) };
  } catch (error) {
    return { delivery, failure: asSyncError(error) };
  }
}

function named({ id, connection, source, event, receivedAt }: PendingDelivery): Omit<Delivery, 'body'> {
  return { id, connection, source, event, receivedAt };
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

interface Reading {
  /** Translates this body in place of the delivery's own. */
  readonly translate: (body: PendingDelivery['stored'] | undefined) => Promise<Translation>;
  readonly aside: WorkerTranslator | undefined;
  readonly query: Scope;
}

/**
 * Translates a delivery. Where that fails for a page, reads the page element by element: each element stands alone, so that
 * only those at fault are left out. A page of which no element is well formed fails as one.
 */
async function translatePage(
  delivery: PendingDelivery,
  { translate, aside, query }: Reading,
): Promise<Pick<Translated, 'translation' | 'rejected'>> {
  try {
    return { translation: await translate(undefined) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    const isPage = delivery.source === 'poll' || delivery.source === 'backfill';
    if (!aside || !isPage || !OF_ELEMENTS.has(error.code)) throw error;
    const parts = await aside.parts(delivery.stored);
    if (parts.length < 2) throw error;
    const { read, rejected } = await readParts(parts, delivery, { translate, query });
    if (read.length === 0 && error.code === 'delivery_malformed') throw error;
    return { translation: together(read), rejected };
  }
}

/** Translates each element of a page by itself, without those that are in quarantine for what they cost. */
async function readParts(
  parts: readonly PagePart[],
  { connection }: PendingDelivery,
  { translate, query }: Omit<Reading, 'aside'>,
): Promise<{ readonly read: readonly Translation[]; readonly rejected: readonly RejectedPart[] }> {
  const contents = parts.map(({ content }) => content);
  const known = await costlyParts(query, connection, contents);
  const read: Translation[] = [];
  const rejected: RejectedPart[] = [];
  for (const [at, { body, content }] of parts.entries()) {
    if (known.has(content)) continue;
    try {
      read.push(await translate({ body: Buffer.from(body), unpacked_length: null }));
    } catch (thrown) {
      const failure = asSyncError(thrown);
      if (!OF_ELEMENTS.has(failure.code)) throw failure;
      rejected.push({ content, body, reason: reasonOf(failure, `element ${at + 1} of ${parts.length}: `) });
    }
  }
  return { read, rejected };
}

/** Failures that may be the fault of one element of a page. */
const OF_ELEMENTS: ReadonlySet<SyncError['code']> = new Set(['over_budget', 'delivery_malformed']);

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
  return { outcome: 'ignored', reason: 'nothing of the page could be read' };
}
