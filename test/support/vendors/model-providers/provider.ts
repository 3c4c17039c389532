import { readFileSync } from 'node:fs';

/** State of one item at one time, in the words of the project's own model. */
export type State = Readonly<Record<string, unknown>>;

export interface Rendered {
  readonly event: string;
  readonly payload: unknown;
}

/** At which time of the provider this state began, epoch milliseconds. */
type Render = (state: State, at: number) => Rendered;

/**
 * One item at a vendor, as the vendor would tell of it. To add a connector: take one of its fixtures, and say where in it
 * each field stands.
 */
export interface ModelProvider {
  /** The connector's id. */ readonly id: string;
  /** As in a configuration file; the item is in scope. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The fields that may change, each with its values; the first is what it begins with. */
  readonly values: Readonly<Record<string, readonly unknown[]>>;
  /** Values of `state` that are not left again. */
  readonly final: readonly string[];
  /** The delivery that the vendor sends for every change. */
  readonly webhook: Render;
  /** Others that tell of the item without a change of it: comments, reviews. */
  readonly others: readonly Render[];
  /** A page of a poll that holds it, and what a fetch brings. */
  readonly page: Render;
  readonly fetched: Render;
  /** Answer to a fetch of an item that was deleted. */
  readonly gone: (at: number) => Rendered;
  /** Webhook of a deletion, if the vendor sends one. */
  readonly removed?: (at: number) => Rendered;
}

/** The content of a fixture of a connector, anew each time. */
export function fixture<Content extends object = Record<string, unknown>>(connector: string, name: string): Content {
  const file = new URL(`../../../../src/connectors/${connector}/fixtures/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')) as Content;
}

/** A copy with other values at these paths; `undefined` takes the field away. */
export function altered(content: unknown, changes: Readonly<Record<string, unknown>>): unknown {
  const copy = structuredClone(content);
  for (const [path, value] of Object.entries(changes)) {
    const keys = path.split('.');
    const last = keys.pop() as string;
    const holder = keys.reduce<Record<string, unknown>>((at, key) => at[key] as Record<string, unknown>, copy as never);
    if (value === undefined) delete holder[last];
    else holder[last] = value;
  }
  return copy;
}

/** RFC 3339 to the second, as some vendors tell every time. */
export function seconds(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}
