import { z } from 'zod';

/**
 * A field that is missing, or that has become something else, is absent: it is then neither compared nor cleared.
 * For every field but identity and time, which must be there.
 */
export const absent = <Field extends z.ZodType>(field: Field) => field.optional().catch(undefined);

/** An instant of RFC 3339, always written in UTC. */
export const instant = z.iso
  .datetime({ offset: true })
  .transform((text) => (text.endsWith('Z') ? text : new Date(text).toISOString()));

/** An address that people can open. */
export const webAddress = z.string().regex(/^https?:\/\/\S{1,2000}$/);

/** Vendors promise no order in lists of names: sorted, the same content is the same item. */
export function sorted(names: readonly string[] | undefined): string[] | undefined {
  return names && [...new Set(names)].sort();
}

/** Leaves absent fields out, so that equal items are equal objects. */
export function present<Fields extends object>(fields: Fields): Partial<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<Fields>;
}

/** A stable id of those vendors that draw them at random, in lower case. */
export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** What something is called, or that there is nothing. */
export function nameOf(given: { readonly name: string } | null | undefined): string | null | undefined {
  return given === null ? null : given?.name;
}

/** By id, of those people who show their address. */
export function emailsOf(
  people: readonly (readonly [id: string | undefined, email: string | undefined])[],
): Readonly<Record<string, string>> | undefined {
  const told = people.filter((each) => each[0] !== undefined && each[1] !== undefined);
  return told.length === 0 ? undefined : (Object.fromEntries(told) as Record<string, string>);
}

/** Whether a status is the one that people named, in whatever case; any is where they named none. */
export function isNamed(name: string, wanted: string | undefined): boolean {
  return wanted === undefined || name.toLowerCase() === wanted.toLowerCase();
}
