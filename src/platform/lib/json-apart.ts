import type { Shape } from './shape.ts';

/**
 * A JSON value in which long texts, and long parts that no code reads, are bytes: their own JSON, in UTF-8. Bytes move between
 * threads, and into the body of a delivery, at the cost of a copy, and are not parsed on the way.
 */
export type Apart = unknown;

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
