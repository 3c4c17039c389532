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
