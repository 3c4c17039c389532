/** Encodes query parameters: a list is repeated, `undefined` is left out. Returns '' when nothing is left. */
export function encodeQuery(query: object | undefined): string {
  const encoded = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of [value].flat()) if (one !== undefined) encoded.append(name, String(one));
  }
  return encoded.toString();
}
