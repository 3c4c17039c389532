/** The kept fields of an object: `true` for a whole field, a shape for its parts; a list's shape applies to each element. */
export interface Shape {
  readonly [field: string]: true | Shape;
}

/**
 * Pure. Removes the parts that the shape does not name, so that a page shrinks to the fields that are read. A value of an
 * unexpected kind is kept, and `translate` judges it.
 */
export function keep(value: unknown, shape: Shape): unknown {
  if (Array.isArray(value)) return value.map((element: unknown) => keep(element, shape));
  // Parts that were set apart stay so: see `json-apart.ts`.
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  const kept: Record<string, unknown> = {};
  for (const [field, part] of Object.entries(shape)) {
    if (!Object.hasOwn(value, field)) continue;
    const content = (value as Record<string, unknown>)[field];
    kept[field] = part === true ? content : keep(content, part);
  }
  return kept;
}

/** The functions below read values that another program wrote in its own way. They never throw. */

/** Returns an id as text, because servers also send numbers; undefined if there is none. */
export function idText(value: unknown): string | undefined {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Numbers from this one on are milliseconds; smaller ones are seconds. */
const LEAST_MILLISECONDS = 100_000_000_000;

/** Returns a time as text; null if there is none. A number is an epoch time in seconds or milliseconds. */
export function timeText(value: unknown): string | null {
  if (typeof value !== 'number') return typeof value === 'string' ? value : null;
  const time = new Date(value < LEAST_MILLISECONDS ? value * 1_000 : value);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

/** Returns the texts of a list. An object counts by its name; elements without a name are dropped. */
export function namesIn(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((element: unknown) => {
    if (typeof element === 'string') return [element];
    if (!isObject(element)) return [];
    const name = [element['name'], element['title'], element['label']].find((each) => typeof each === 'string');
    return name === undefined ? [] : [name as string];
  });
}

/**
 * Returns the object with only those elements of its list that can be identified. It counts the dropped ones in `unreadable`,
 * because an incomplete list does not prove that anything is absent.
 *
 * @param identity fields that every element must have
 */
export function identifiedOnly(value: unknown, list: string, identity: readonly string[]): unknown {
  const elements: unknown = isObject(value) ? value[list] : undefined;
  if (!Array.isArray(elements)) return value;
  const isIdentified = (element: unknown) =>
    isObject(element) && identity.every((field) => idText(element[field]) !== undefined);
  const identified = elements.filter(isIdentified);
  const dropped = elements.length - identified.length;
  if (dropped === 0) return value;
  const { unreadable } = value as { unreadable?: unknown };
  return { ...(value as object), [list]: identified, unreadable: dropped + (Number(unreadable) || 0) };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
