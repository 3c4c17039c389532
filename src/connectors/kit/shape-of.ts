import { z } from 'zod';
import type { Shape } from '../../lib/shape.ts';

/** The fields that a schema reads: worksync keeps exactly those of an answer. Of a union, the fields of all its objects. */
export function shapeOf(expected: z.ZodObject): Shape {
  return Object.fromEntries(Object.entries(expected.shape).map(([name, part]) => [name, partOf(part)]));
}

function partOf(expected: unknown): true | Shape {
  if (expected instanceof z.ZodOptional || expected instanceof z.ZodNullable || expected instanceof z.ZodCatch)
    return partOf(expected.def.innerType);
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
