/** Names of the rules or facts that a page defines, in order: each begins a point of a list, as `- **W38**`. */
export function namesOf(page: string): string[] {
  return Array.from(page.matchAll(/^- \*\*([A-Z]{1,2}\d+)\*\*/gm), ([, name]) => name!);
}
