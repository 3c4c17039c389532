import { z } from 'zod';
import { keep, type Shape } from '../../platform/lib/shape.ts';

/** The fields that a schema reads: worksync keeps exactly those of an answer. Of a union, the fields of all its objects. */
export function shapeOf(expected: z.ZodObject): Shape {
  return Object.fromEntries(Object.entries(expected.shape).map(([name, part]) => [name, partOf(part)]));
}

/**
 * What to keep of an answer that has this schema, and a function that leaves out the rest, so that a page of 100 pull requests
 * shrinks from 2 MB to its texts. `translate` makes the same items of it: a value of an unexpected kind stays as it is, for
 * `translate` to judge.
 */
export function keptBy(expected: z.ZodObject) {
  const kept = shapeOf(expected);
  return { kept, slim: (found: unknown) => keep(found, kept) };
}

const WRAPPERS = [z.ZodOptional, z.ZodNullable, z.ZodDefault, z.ZodCatch];

function partOf(expected: unknown): true | Shape {
  if (WRAPPERS.some((each) => expected instanceof each)) return partOf((expected as z.ZodOptional).def.innerType);
  if (expected instanceof z.ZodArray) return partOf(expected.def.element);
  if (expected instanceof z.ZodPipe) return partOf(expected.def.in);
  if (expected instanceof z.ZodUnion) return among(expected.def.options.map(partOf));
  // Code may read any field of a loose object.
  const isLoose = expected instanceof z.ZodObject && expected.def.catchall instanceof z.ZodUnknown;
  return expected instanceof z.ZodObject && !isLoose ? among([shapeOf(expected)]) : true;
}

/** A value of which no part is named is kept whole. */
function among(parts: readonly (true | Shape)[]): true | Shape {
  const shapes = parts.filter((part) => part !== true && Object.keys(part).length > 0);
  return shapes.length === 0 ? true : Object.assign({}, ...shapes);
}
