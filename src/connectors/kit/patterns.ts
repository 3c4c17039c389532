/**
 * Names with wildcards: `*` stands for any run of characters within one part of a path, `**` for any run of parts.
 * Case does not count. Time grows with the length of both, whatever they contain: both come from outside.
 */
export function matches(pattern: string, name: string): boolean {
  const tokens = pattern.toLowerCase().match(/\*\*|./gsu) ?? [];
  let reached = new Set(skipStars(tokens, 0));
  for (const character of name.toLowerCase()) {
    const next = new Set<number>();
    for (const at of reached) for (const to of step(tokens, at, character)) next.add(to);
    reached = next;
  }
  return reached.has(tokens.length);
}

export function isPattern(name: string): boolean {
  return name.includes('*');
}

/** Where one character leads from a place in the pattern. */
function step(tokens: readonly string[], at: number, character: string): readonly number[] {
  const token = tokens[at];
  const stays = token === '**' || (token === '*' && character !== '/');
  if (stays) return skipStars(tokens, at);
  return token === character ? skipStars(tokens, at + 1) : [];
}

/** A star may stand for nothing. */
function skipStars(tokens: readonly string[], from: number): readonly number[] {
  const places = [from];
  for (let at = from; tokens[at]?.startsWith('*'); at++) places.push(at + 1);
  return places;
}
