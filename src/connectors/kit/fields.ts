import { z } from 'zod';

/**
 * A field that is missing, or that has become something else, is absent: it is then neither compared nor cleared.
 * For every field but identity and time, which must be there.
 */
export const absent = <Field extends z.ZodType>(field: Field) => field.optional().catch(undefined);

/** An instant of RFC 3339, always written in UTC. One whose year has no four digits there is none. */
export const instant = z.iso
  .datetime({ offset: true })
  .transform((text) => (text.endsWith('Z') ? text : new Date(text).toISOString()))
  .refine((text) => /^\d{4}-/.test(text), 'must be a time between the years 0 and 9999');

export function isInstant(text: string): boolean {
  return instant.safeParse(text).success;
}

/** An address that people can open, and that does not begin with a name which looks like the host. */
export const webAddress = z
  .string()
  .regex(/^https?:\/\/\S{1,2000}$/)
  .refine((text) => {
    const url = URL.parse(text);
    return url !== null && url.username === '' && url.password === '';
  }, 'must be an address without credentials');

/** Vendors promise no order in lists of names: sorted, the same content is the same item. */
export function sorted(names: readonly string[] | undefined): string[] | undefined {
  return names && [...new Set(names)].sort();
}

/** Leaves absent fields out, so that equal items are equal objects. */
export function present<Fields extends object>(fields: Fields): Partial<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<Fields>;
}

/** An id of a vendor that draws ids at random, in lower case. */
export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The name of a part; null where the vendor says that there is no such part. */
export function nameOf(given: { readonly name: string } | null | undefined): string | null | undefined {
  return given === null ? null : given?.name;
}

/** E-mail addresses by id, of those people who show theirs. */
export function emailsOf(
  people: readonly (readonly [id: string | undefined, email: string | undefined])[],
): Readonly<Record<string, string>> | undefined {
  const told = people.filter((each) => each[0] !== undefined && each[1] !== undefined);
  return told.length === 0 ? undefined : (Object.fromEntries(told) as Record<string, string>);
}

/** Whether a status has the name that people configured, in any case; each has where they configured none. */
export function isNamed(name: string, wanted: string | undefined): boolean {
  return wanted === undefined || name.toLowerCase() === wanted.toLowerCase();
}
