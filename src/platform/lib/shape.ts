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
  // Parts that were set apart stay so: see `keepApart`.
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  const kept: Record<string, unknown> = {};
  for (const [field, part] of Object.entries(shape)) {
    if (!Object.hasOwn(value, field)) continue;
    const content = (value as Record<string, unknown>)[field];
    kept[field] = part === true ? content : keep(content, part);
  }
  return kept;
}

/** Returns an id as text, because servers also send numbers; undefined if there is none. Never throws. */
export function idText(value: unknown): string | undefined {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Numbers from this one on are milliseconds; smaller ones are seconds. */
const LEAST_MILLISECONDS = 100_000_000_000;

/** Returns a time as text; null if there is none. A number is an epoch time in seconds or milliseconds. Never throws. */
export function timeText(value: unknown): string | null {
  if (typeof value !== 'number') return typeof value === 'string' ? value : null;
  const time = new Date(value < LEAST_MILLISECONDS ? value * 1_000 : value);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

/** Returns the texts of a list. An object counts by its name; elements without a name are dropped. Never throws. */
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
 * because an incomplete list does not prove that anything is absent. Never throws.
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

/**
 * A JSON value in which long texts, and long parts that no code reads, are bytes: their own JSON, in UTF-8. Bytes move between
 * threads, and into the body of a delivery, at the cost of a copy, and are not parsed on the way.
 */
type Apart = unknown;

/** Characters above which JSON is set apart. */
const LONG = 1_024;
/** Limit of the rest: each value, and each name of one, counts its characters and this number. */
const OF_A_VALUE = 16;
const MOST = 8 * 1024 * 1024;

/** The result would be too large for a thread that must not block. */
export class TooMuch extends Error {}

/**
 * Pure. Returns the parts that the shape names, as `keep` does, with long parts set apart. `true` keeps everything, including its
 * texts. Throws `TooMuch`.
 */
export function keepApart(value: unknown, shape: Shape | true): Apart {
  return new Keeper().visit(value, shape);
}

class Keeper {
  #size = 0;

  visit(value: unknown, shape: Shape | true): unknown {
    if (typeof value === 'string') return this.#text(value);
    this.#weigh(0);
    if (Array.isArray(value)) return value.map((element) => this.visit(element, shape));
    if (typeof value !== 'object' || value === null) return value;
    return this.#fields(value as Readonly<Record<string, unknown>>, shape);
  }

  #fields(value: Readonly<Record<string, unknown>>, shape: Shape | true): Record<string, unknown> {
    const kept: Record<string, unknown> = {};
    for (const field of Object.keys(shape === true ? value : shape)) {
      if (!Object.hasOwn(value, field)) continue;
      this.#weigh(field.length);
      kept[field] = shape === true ? this.visit(value[field], true) : this.#part(value[field], shape[field] ?? true);
    }
    return kept;
  }

  #part(value: unknown, shape: Shape | true): unknown {
    const isWhole = shape === true && typeof value === 'object' && value !== null;
    return isWhole ? this.#whole(value) : this.visit(value, shape);
  }

  /** No code reads a part that the shape names as a whole. */
  #whole(value: object): unknown {
    const json = JSON.stringify(value);
    if (json.length > LONG) return new TextEncoder().encode(json);
    this.#weigh(OF_A_VALUE * json.length);
    return value;
  }

  #text(text: string): unknown {
    if (text.length > LONG) return new TextEncoder().encode(JSON.stringify(text));
    this.#weigh(text.length);
    return text;
  }

  #weigh(length: number): void {
    this.#size += OF_A_VALUE + length;
    if (this.#size > MOST) throw new TooMuch('more values than one page may have');
  }
}

/** Returns the memory of the parts that were set apart: a thread may transfer it without a copy. */
export function buffersOf(value: Apart): ArrayBuffer[] {
  if (typeof value !== 'object' || value === null) return [];
  if (value instanceof Uint8Array) return value.buffer instanceof ArrayBuffer ? [value.buffer] : [];
  return Object.values(value).flatMap(buffersOf);
}

/** Returns the JSON of a value with its parts inserted. */
export function joinApart(value: Apart): Buffer {
  if (!hasApart(value)) return Buffer.from(JSON.stringify(value));
  const pieces: Uint8Array[] = [];
  let text = '';
  const write = (each: unknown): void => {
    if (each instanceof Uint8Array) {
      pieces.push(Buffer.from(text), each);
      text = '';
    } else if (!hasApart(each)) text += JSON.stringify(each) ?? 'null';
    else if (Array.isArray(each)) writeAll('[', each, write, ']');
    else {
      const fields = Object.entries(each as object).filter(([, content]) => content !== undefined);
      const writeField = ([name, content]: [string, unknown]) => {
        text += `${JSON.stringify(name)}:`;
        write(content);
      };
      writeAll('{', fields, writeField, '}');
    }
  };
  const writeAll = <Element>(
    open: string,
    elements: readonly Element[],
    writeOne: (element: Element) => void,
    close: string,
  ) => {
    text += open;
    for (const [at, element] of elements.entries()) {
      if (at > 0) text += ',';
      writeOne(element);
    }
    text += close;
  };
  write(value);
  return Buffer.concat([...pieces, Buffer.from(text)]);
}

function hasApart(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof Uint8Array) return true;
  return Array.isArray(value) ? value.some(hasApart) : Object.values(value).some(hasApart);
}
