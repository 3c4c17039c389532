const SECRET_KEY = /^key$|token|secret|password|api_?key|private_?key|credential/i;
/** A shorter value is no secret, and hiding it would blank out ordinary words of the log. */
export const SHORTEST_SECRET = 6;

/** Texts, and lists of texts, whose key is called like a secret, wherever they came from. */
export function literalSecrets(data: unknown, isSecret = false): readonly string[] {
  if (typeof data === 'string') return isSecret && data.length >= SHORTEST_SECRET ? [data] : [];
  if (typeof data !== 'object' || data === null) return [];
  if (Array.isArray(data)) return data.flatMap((value) => literalSecrets(value, isSecret));
  return Object.entries(data).flatMap(([key, value]) => literalSecrets(value, SECRET_KEY.test(key)));
}
