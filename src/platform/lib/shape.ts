/** What is kept of an object: `true` for a whole field, a shape for its parts; a list's shape stands for each element. */
export interface Shape {
  readonly [field: string]: true | Shape;
}

/**
 * Pure: leaves out what the shape does not name, so that a page shrinks to what is read of it. A value of an unexpected
 * kind is kept as it is, for `translate` to judge.
 */
export function keep(value: unknown, shape: Shape): unknown {
  if (Array.isArray(value)) return value.map((element: unknown) => keep(element, shape));
  // What was set apart stays so: see `json-apart.ts`.
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  const kept: Record<string, unknown> = {};
  for (const [field, part] of Object.entries(shape)) {
    if (!Object.hasOwn(value, field)) continue;
    const content = (value as Record<string, unknown>)[field];
    kept[field] = part === true ? content : keep(content, part);
  }
  return kept;
}
