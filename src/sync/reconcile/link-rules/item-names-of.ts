import type { WorkItem } from '../../../model/item.ts';
import type { Grammar } from '../../../model/link.ts';
import { withoutEnd } from '../../../platform/lib/text.ts';

/**
 * Names under which things are looked up, one space for all: a key is its own name (`BUG-12`, also where it is an
 * item's), and all others have a sign that no key has.
 */
export const nameOf = {
  taskId: (taskId: string) => `id:${taskId}`,
  document: (documentId: string) => `doc:${documentId}`,
  url: (normal: string) => `url:${normal}`,
  /** Within a project, which goes by its id or by what people call it. */
  number: ({ connector, host }: Place, project: string, number: string) =>
    `${connector}:${host}:${project.toLowerCase()}#${number}`,
  hostNumber: ({ connector, host }: Place, number: string) => `${connector}:${host}#${number}`,
} as const;

/** Where numbers are counted. */
export interface Place {
  readonly connector: string;
  readonly host: string;
}

const SHORT_ID = /^[A-Za-z0-9][A-Za-z0-9_-]*-[A-Za-z0-9]+$/;

/** The name of a project, repository or team, as a part of the names of its items. */
export function placeNameOf({ connector, host }: Place, container: string): string {
  return `${connector}:${host}:${container.toLowerCase()}`;
}

/** Names of a work item, each with the place whose name is a part of it: whoever takes that takes these names too. */
export function placedNamesOf(item: WorkItem, grammar: Grammar) {
  const { containerId: container, containerName } = item;
  const inName = containerName?.toLowerCase();
  return namesOfItem(item, grammar).map((name) => {
    const isPlaced = inName !== undefined && name.toLowerCase().includes(inName);
    return isPlaced ? { name, place: placeNameOf(item, inName), container } : { name, place: null, container: null };
  });
}

/** The names that a work item had under its former identifiers. */
export function formerNamesOf(item: WorkItem, grammar: Grammar): readonly string[] {
  return (item.formerIdentifiers ?? []).flatMap((identifier) => {
    const url = item.url?.endsWith(`/${item.identifier}`)
      ? item.url.slice(0, -item.identifier.length) + identifier
      : undefined;
    return namesOfItem({ ...item, identifier, url } as WorkItem, grammar);
  });
}

/** All names of a work item. */
export function namesOfItem(item: WorkItem, grammar: Grammar): string[] {
  const names = new Set<string>();
  const url = item.url === undefined ? undefined : normalUrl(item.url);
  if (url !== undefined) names.add(nameOf.url(url));
  const { identifier } = item;
  const number = /(?<![0-9])0*([1-9][0-9]*)$/.exec(identifier)?.[1];
  for (const form of grammar.names) {
    if (form === 'key' || form === 'short-id') {
      if (SHORT_ID.test(identifier)) names.add(identifier.toUpperCase());
    } else if (number === undefined) continue;
    else if (form === 'number') {
      names.add(nameOf.number(item, item.containerId, number));
      if (item.containerName !== undefined) names.add(nameOf.number(item, item.containerName, number));
    } else if (form === 'host-number') names.add(nameOf.hostNumber(item, number));
    else names.add(form + number);
  }
  return [...names].filter((name) => name.length <= LONGEST_NAME);
}

export const LONGEST_NAME = 512;

/** Host and path, without what does not tell one page from another. Undefined where it is no web address. */
export function normalUrl(text: string): string | undefined {
  const url = text.length <= 2_048 ? URL.parse(text) : null;
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return undefined;
  return `${url.host}${withoutEnd(url.pathname, '/')}`;
}
