import type { Grammar } from '../../../model/link.ts';
import { escapePattern } from '../../../platform/lib/text.ts';

/** One spelling of an address, compiled. See `Grammar.addresses`. */
interface AddressForm {
  /** Matches host and path. Each part ends at a slash, so that matching takes linear time. */
  readonly pattern: RegExp;
  readonly parameter: { readonly name: string; readonly value: RegExp } | undefined;
  readonly firstSpelling: string;
}

/** An item's address, as one of the forms reads it. */
export interface ReadAddress {
  /** Host and path of its first spelling. */
  readonly url: string;
  /** The project's path and the item's number, if the form has both. */
  readonly path?: string | undefined;
  readonly number?: string | undefined;
}

const compiled = new WeakMap<Grammar, Map<string, readonly AddressForm[]>>();

/**
 * Reads an address by the forms of a connection.
 *
 * @param url host and path of the address
 * @param text the whole address
 * @param host the connection's own host
 */
export function readAddress(
  grammar: Grammar,
  host: string,
  { url, text }: { url: string; text: string },
): ReadAddress[] {
  const byHost = compiled.get(grammar) ?? new Map<string, readonly AddressForm[]>();
  compiled.set(grammar, byHost);
  const forms = byHost.get(host) ?? (grammar.addresses ?? []).flatMap((spellings) => compile(spellings, host));
  byHost.set(host, forms);
  const found = new Map<string, ReadAddress>();
  for (const { pattern, parameter, firstSpelling } of forms) {
    const parts = pattern.exec(url)?.groups;
    if (parts === undefined) continue;
    const inQuery = parameter?.value.exec(parameterOf(text, parameter.name) ?? '')?.groups;
    if (parameter && inQuery === undefined) continue;
    const read = fill(firstSpelling, { ...parts, ...inQuery });
    found.set(read.url, read);
  }
  return [...found.values()];
}

function parameterOf(text: string, name: string): string | null | undefined {
  return URL.parse(text)?.searchParams.get(name);
}

/** Folds the case of all parts but a project's path, because vendors ignore it there. */
function fill(spelling: string, parts: Readonly<Record<string, string>>): ReadAddress {
  const url = spelling.slice(2).replaceAll(PART, (_part, name: string) => {
    const value = parts[name] ?? '';
    if (name === 'path') return value;
    return name === 'key' ? value.toUpperCase() : value.toLowerCase();
  });
  return { url, path: parts['path'], number: parts['number'] };
}

const PART = /\{(\w+)\}/g;

const PATTERNS: Readonly<Record<string, string>> = {
  number: '[1-9][0-9]{0,18}',
  key: '[A-Za-z0-9_]{1,60}-[1-9][0-9]{0,8}',
  path: '[^/]+(?:/[^/]+)*',
  site: '[^/]+',
};

function compile(spellings: readonly string[], host: string): AddressForm[] {
  const firstSpelling = spellings[0] as string;
  return spellings.map((spelling) => {
    const [address = '', query] = spelling.slice(2).split('?');
    const [name = '', value = ''] = query?.split('=') ?? [];
    return {
      pattern: new RegExp(`^${sourceOf(address, host)}$`, 'u'),
      parameter: query === undefined ? undefined : { name, value: new RegExp(`^${sourceOf(value, host)}$`, 'u') },
      firstSpelling,
    };
  });
}

function sourceOf(text: string, host: string): string {
  return text
    .split(/(\{\w+\}|\/…)/)
    .map((part) => {
      if (part === '/…') return '(?:/[^/]+)*';
      const name = /^\{(\w+)\}$/.exec(part)?.[1];
      if (name === undefined) return escapePattern(part);
      const pattern = name === 'host' ? `${escapePattern(host)}(?::[0-9]+)?` : (PATTERNS[name] ?? '[^/.]+');
      return `(?<${name}>${pattern})`;
    })
    .join('');
}
