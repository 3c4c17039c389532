const SECRET_KEY = /token|secret|password|api_?key|private_?key|credential/i;
const SHORTEST_SECRET = 6;

/** Texts below keys that are called like secrets, wherever they came from. */
export function literalSecrets(data: unknown, isSecret = false): readonly string[] {
  if (typeof data === 'string') return isSecret && data.length >= SHORTEST_SECRET ? [data] : [];
  if (typeof data !== 'object' || data === null) return [];
  return Object.entries(data).flatMap(([key, value]) => literalSecrets(value, isSecret || SECRET_KEY.test(key)));
}
