/** The target of a `Link` header's relation, RFC 8288 as vendors write it: `<https://…?page=2>; rel="next", <…>; …`. */
export function linkTo(header: string | undefined, rel: string): string | undefined {
  const links = (header ?? '').matchAll(/<([^<>]*)>\s*;\s*rel="?(\w+)"?/g);
  for (const [, target, name] of links) if (name === rel) return target;
  return undefined;
}
