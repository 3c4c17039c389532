import type { Translation } from '../../connectors/connector.ts';
import type { Delivery } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { Item, ItemReference } from '../../model/item.ts';
import { LARGE } from '../../platform/lib/concurrency.ts';
import { withStorableTexts } from '../../platform/lib/text.ts';
import { costlyParts, type PendingDelivery, type RejectedPart } from '../../store/deliveries/inbox.ts';
import { type Answer, readAnswer, WORKSPACE } from '../../store/workspace/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { PageElement, ReconcileConnection, ReconcileConnections, WorkerTranslator } from './context.ts';
import { translateEvent } from './workspace-events.ts';

/**
 * A delivery and its content. Deliveries are translated before the transaction, because translation changes nothing.
 */
export interface Translated {
  readonly delivery: PendingDelivery;
  readonly connection?: ReconcileConnection;
  readonly translation?: Translation;
  /** The content of a delivery of the workspace itself. */
  readonly answer?: Answer;
  /** The type of a workspace event that worksync does not know. */
  readonly unknownType?: string;
  readonly failure?: SyncError;
  /** Elements of a page that could not be read. `translation` contains the other elements. */
  readonly rejected?: readonly RejectedPart[];
  /** Absent if this is the whole delivery. */
  readonly part?: DeliveryPart;
}

/** A part of a delivery with many items. Parts are processed separately, and the last one settles the delivery. */
interface DeliveryPart {
  /** Position of its first item in the delivery. */
  readonly start: number;
  readonly isLast: boolean;
  /** Shared by all parts: whether one of them contained an item that was not outdated. */
  readonly whole: { isApplied: boolean };
}

export interface TranslationContext {
  /** Reads which elements are quarantined already. */
  readonly query: Scope;
  readonly sources: ReconcileConnections;
  /** Whether the delivery may have crashed the process. Such deliveries are translated by the worker thread. */
  readonly isSuspected: (delivery: PendingDelivery) => boolean;
}

/**
 * Translates deliveries one by one. A failure becomes part of the result, so that it does not stop the other
 * deliveries.
 */
export async function translateAll(
  deliveries: readonly PendingDelivery[],
  context: TranslationContext,
): Promise<Translated[]> {
  const translated: Translated[] = [];
  for (const delivery of deliveries) translated.push(newestFirst(await translateDelivery(delivery, context)));
  return translated;
}

/**
 * Sorts the items of a page by their creation, and those of one time by their number. The first ones are sent first, and the last
 * ones are held if the page exceeds a limit of the guard.
 */
function newestFirst(translated: Translated): Translated {
  const { delivery, translation } = translated;
  if (translation?.outcome !== 'items' || !isPage(delivery)) return translated;
  const ages = translation.items.map((item) => ({ item, created: createdTime(item), number: numberOf(item) }));
  const sorted = ages.toSorted((a, b) => b.created - a.created || b.number - a.number);
  return { ...translated, translation: { ...translation, items: sorted.map(({ item }) => item) } };
}

/** Epoch milliseconds; 0 if it is not known. */
function createdTime({ createdAt }: Item): number {
  return (createdAt && Date.parse(createdAt)) || 0;
}

/** `12` of `12`, `#12` and `ENG-12`. */
function numberOf({ identifier }: Item): number {
  return Number(/\d{1,15}$/.exec(identifier)?.[0] ?? 0);
}

function isPage({ source }: PendingDelivery): boolean {
  return source === 'poll' || source === 'backfill';
}

/**
 * Splits a delivery into parts of at most `limit` items. If the process ends between two parts, the delivery is still
 * pending, and processing the finished parts again changes nothing.
 */
export function partsOf(translated: Translated, limit: number): readonly Translated[] {
  const { translation, rejected, ...common } = translated;
  if (translation?.outcome !== 'items' || translation.items.length <= limit) return [translated];
  const { items, references, ...rest } = translation;
  const whole = { isApplied: false };
  const parts: Translated[] = [];
  for (let start = 0; start < items.length; start += limit) {
    const own = items.slice(start, start + limit);
    const part = { whole, start, isLast: start + limit >= items.length };
    const first = start === 0 && references ? { references } : {};
    parts.push({
      ...common,
      ...(start === 0 && rejected && { rejected }),
      translation: { ...rest, ...first, items: own },
      part,
    });
  }
  return parts;
}

/**
 * Returns the number of things that a delivery names. Pages and lists of the workspace name many, and each is a lookup.
 */
export function weightOf({ translation, answer }: Translated): number {
  if (translation?.outcome === 'items') return Math.max(1, translation.items.length);
  const lists = Object.values((answer?.body ?? {}) as object).filter(Array.isArray);
  return lists.reduce((sum, list) => sum + list.length, 1);
}

/** Returns the reason that is stored with a delivery. `place` names the faulty place within the delivery. */
export function reasonOf({ code, message }: SyncError, place = ''): string {
  return `${code}: ${place}${message}`.slice(0, 500);
}

async function translateDelivery(delivery: PendingDelivery, context: TranslationContext): Promise<Translated> {
  if (delivery.connection === WORKSPACE) return translateWorkspaceDelivery(delivery);
  const connection = context.sources.get(delivery.connection);
  if (!connection) {
    const message = `no connection "${delivery.connection}" is configured any more`;
    return { delivery, failure: new SyncError('connection_unknown', message) };
  }
  const { worker } = connection;
  const isForWorker = worker !== undefined && (delivery.bytes > LARGE || context.isSuspected(delivery));
  const translate: TranslateBody = async (body) => {
    if (isForWorker) return worker.translate(body ? { ...headOf(delivery), stored: body } : delivery);
    return connection.translate(body ? { ...headOf(delivery), body: body.body } : delivery);
  };
  try {
    const { translation, rejected } = await translatePage(delivery, translate, worker, context.query);
    // The form that the database stores, because later deliveries are compared with stored texts.
    return { delivery, connection, translation: withStorableTexts(translation), ...(rejected && { rejected }) };
  } catch (error) {
    return { delivery, failure: asSyncError(error) };
  }
}

/** Returns a delivery without its body. */
function headOf({ id, connection, source, event, receivedAt }: PendingDelivery): Omit<Delivery, 'body'> {
  return { id, connection, source, event, receivedAt };
}

/**
 * Translates an answer of the workspace, to a request of worksync or of a gateway client, or a webhook of the
 * workspace.
 */
function translateWorkspaceDelivery(delivery: PendingDelivery): Translated {
  if (delivery.source !== 'workspace') return { delivery, answer: readAnswer(delivery.body) };
  try {
    const event = translateEvent(delivery);
    if (event.outcome === 'answer') return { delivery, answer: event.answer };
    const { unknownType, ...translation } = event;
    return { delivery, translation, ...(unknownType !== undefined && { unknownType }) };
  } catch (error) {
    return { delivery, failure: asSyncError(error) };
  }
}

/** Translates a delivery, with this body in place of its own if one is given. */
type TranslateBody = (body?: PendingDelivery['stored']) => Promise<Translation>;

/**
 * Translates a delivery. If this fails for a page, translates the page element by element, so that only the faulty
 * elements are left out. A page without a well-formed element fails as a whole.
 */
async function translatePage(
  delivery: PendingDelivery,
  translate: TranslateBody,
  worker: WorkerTranslator | undefined,
  query: Scope,
): Promise<{ readonly translation: Translation; readonly rejected?: readonly RejectedPart[] }> {
  try {
    return { translation: await translate() };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (!worker || !isPage(delivery) || !ELEMENT_FAILURES.has(error.code)) throw error;
    const elements = await worker.elements(delivery.stored);
    if (elements.length < 2) throw error;
    const { translations, rejected } = await translateElements(elements, delivery, translate, query);
    if (translations.length === 0 && error.code === 'delivery_malformed') throw error;
    return { translation: joinTranslations(translations), rejected };
  }
}

/** Failures that one element of a page may cause. */
const ELEMENT_FAILURES: ReadonlySet<SyncError['code']> = new Set(['over_budget', 'delivery_malformed']);

/**
 * Translates each element of a page by itself. Skips elements that are quarantined because they exceeded their budget.
 */
async function translateElements(
  elements: readonly PageElement[],
  { connection }: PendingDelivery,
  translate: TranslateBody,
  query: Scope,
) {
  const contents = elements.map(({ content }) => content);
  const quarantined = await costlyParts(query, connection, contents);
  const translations: Translation[] = [];
  const rejected: RejectedPart[] = [];
  for (const [index, { body, content }] of elements.entries()) {
    if (quarantined.has(content)) continue;
    try {
      translations.push(await translate({ body: Buffer.from(body), unpacked_length: null }));
    } catch (thrown) {
      const failure = asSyncError(thrown);
      if (!ELEMENT_FAILURES.has(failure.code)) throw failure;
      rejected.push({ content, body, reason: reasonOf(failure, `element ${index + 1} of ${elements.length}: `) });
    }
  }
  return { translations, rejected };
}

function joinTranslations(translations: readonly Translation[]): Translation {
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
