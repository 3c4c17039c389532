import type { WorkItem } from '../../../model/item.ts';
import type { Grammar } from '../../../model/link.ts';
import { withoutEnd } from '../../../platform/lib/text.ts';

/**
 * The names under which tasks, items and documents are looked up. All share one space: a key is its own name (`BUG-12`, also the key of
 * an item), and every other name contains a character that no key has.
 */
export const nameOf = {
  taskId: (taskId: string) => `id:${taskId}`,
  document: (documentId: string) => `doc:${documentId}`,
  url: (normal: string) => `url:${normal}`,
  /** A number within a project, which is identified by its id or by the name that people use. */
  number: ({ connector, host }: NumberSpace, project: string, number: string) =>
    `${connector}:${host}:${project.toLowerCase()}#${number}`,
  hostNumber: ({ connector, host }: NumberSpace, number: string) => `${connector}:${host}#${number}`,
} as const;

/** The host within which the numbers of items, or of their projects, are unique. */
export interface NumberSpace {
  readonly connector: string;
  readonly host: string;
}

/** Longer names are not looked up. */
export const MAX_NAME_LENGTH = 512;

const SHORT_ID = /^[A-Za-z0-9][A-Za-z0-9_-]*-[A-Za-z0-9]+$/;

/** Returns the name of a project, repository or team, as it is a part of the names of its items. */
export function placeNameOf({ connector, host }: NumberSpace, container: string): string {
  return `${connector}:${host}:${container.toLowerCase()}`;
}

/**
 * Returns the names of a work item, each with the place whose name is a part of it. A container that takes over the name of a place also
 * takes over these names.
 */
export function placedNamesOf(item: WorkItem, grammar: Grammar) {
  const { containerId: container, containerName } = item;
  const lowerContainer = containerName?.toLowerCase();
  return namesOfItem(item, grammar).map((name) => {
    const isPlaced = lowerContainer !== undefined && name.toLowerCase().includes(lowerContainer);
    return isPlaced
      ? { name, place: placeNameOf(item, lowerContainer), container }
      : { name, place: null, container: null };
  });
}

/** Returns the names that a work item had under its former identifiers. */
export function formerNamesOf(item: WorkItem, grammar: Grammar): readonly string[] {
  return (item.formerIdentifiers ?? []).flatMap((identifier) => {
    const url = item.url?.endsWith(`/${item.identifier}`)
      ? item.url.slice(0, -item.identifier.length) + identifier
      : undefined;
    return namesOfItem({ ...item, identifier, url } as WorkItem, grammar);
  });
}

/** Returns all names of a work item. */
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
  return [...names].filter((name) => name.length <= MAX_NAME_LENGTH);
}

/** Returns host and path, which identify a page. Undefined if the text is not a web address. */
export function normalUrl(text: string): string | undefined {
  const url = text.length <= 2_048 ? URL.parse(text) : null;
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return undefined;
  return `${url.host}${withoutEnd(url.pathname, '/')}`;
}
