import { ID_PATTERN } from './value-schemas.ts';

/** Names of the placeholders of a path template, in order. */
export function parametersOf(template: string): string[] {
  return Array.from(template.matchAll(/\{(\w+)\}/g), (match) => match[1]!);
}

/**
 * Fills a path template with ids. Every id is checked and encoded, so that no id can leave its segment.
 * Throws `RangeError` with the parameter's name, never with its value.
 */
export function fillPath(template: string, ids: Readonly<Record<string, unknown>>): string {
  return template.replace(/\{(\w+)\}/g, (_whole, name: string) => {
    const id = ids[name];
    if (typeof id !== 'string' || !ID_PATTERN.test(id)) throw new RangeError(`${name} is not a valid id`);
    return encodeURIComponent(id);
  });
}
