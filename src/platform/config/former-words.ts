import { type Problem, pathText } from './problems.ts';
import type { ConnectorOptions } from './schema.ts';
import { keysAt } from './validate.ts';
import type { ConfigDocument, Path } from './yaml-document.ts';

/** The words of the previous version, which this version still reads. Delete an entry with the next version. */

/** A value of a key. In the path, `*` stands for each entry of a list. */
const VALUES = [
  { holder: ['rules', 'workflow', 'rules', '*', 'when'], key: 'workItem', was: 'started', now: ['in_progress'] },
  // A tracker may have a status of its own with this name: beside one of the new words it means that.
  { holder: ['rules', 'triage', '*', 'when'], key: 'status', was: 'done', now: ['completed', 'dropped'], isFree: true },
] as const;

/** Keys of connections whose connector has the new key. */
const KEYS = [
  { was: 'doneStatus', now: 'completedStatus' },
  { was: 'doneState', now: 'completedStatus' },
] as const;

interface PresentWords {
  /** Reads the configuration in the words of this version. */
  readonly document: ConfigDocument;
  /** One for each former word. */
  readonly notices: readonly Problem[];
}

/** Replaces the words of the previous version in a configuration. */
export function withPresentWords(document: ConfigDocument, connectors: readonly ConnectorOptions[]): PresentWords {
  const data: unknown = structuredClone(document.data);
  const formerPaths = new Map<string, Path>();
  const notices = [
    ...VALUES.flatMap((former) =>
      holdersAt(data, former.holder).flatMap(({ path, holder }) => replaceValue(holder, path, former, document)),
    ),
    ...holdersAt(data, ['connections', '*']).flatMap(({ path, holder }) => {
      const options = connectors.find(({ id }) => id === holder['connector'])?.options;
      return options === undefined ? [] : replaceKeys(holder, path, keysAt(options, []), { document, formerPaths });
    }),
  ];
  const place: ConfigDocument['place'] = (path) => document.place(formerPaths.get(pathText(path)) ?? path);
  return { document: { ...document, data, place }, notices };
}

type Mapping = Record<string, unknown>;

function replaceValue(
  holder: Mapping,
  path: Path,
  { key, was, now, ...former }: (typeof VALUES)[number],
  document: ConfigDocument,
): readonly Problem[] {
  const given = holder[key];
  const isFree = 'isFree' in former;
  const isFormer = (value: unknown) =>
    typeof value === 'string' && (isFree ? value.toLowerCase() === was : value === was);
  const values: readonly unknown[] = [given].flat();
  const isOwn = isFree && now.some((word) => values.includes(word));
  if (isOwn || !values.some(isFormer)) return [];
  holder[key] = values.flatMap((value) => (isFormer(value) ? [...now, ...(isFree ? [value] : [])] : [value]));
  const words = now.map((word) => `"${word}"`).join(' or ');
  const next = isFree ? "reads it as a tracker's own status only" : 'no longer reads it';
  const place = [...path, key];
  return [
    { ...document.place(place), message: `${pathText(place)}: write ${words} for "${was}"; the next version ${next}` },
  ];
}

function replaceKeys(
  holder: Mapping,
  path: Path,
  known: readonly string[],
  { document, formerPaths }: { readonly document: ConfigDocument; readonly formerPaths: Map<string, Path> },
): readonly Problem[] {
  return KEYS.flatMap(({ was, now }) => {
    if (!Object.hasOwn(holder, was) || Object.hasOwn(holder, now) || !known.includes(now)) return [];
    holder[now] = holder[was];
    delete holder[was];
    formerPaths.set(pathText([...path, now]), [...path, was]);
    const message = `${pathText([...path, was])}: the key is called "${now}"; the next version no longer reads "${was}"`;
    return [{ ...document.keyPlace([...path, was]), message }];
  });
}

/** Returns the mappings at a path. */
function holdersAt(
  data: unknown,
  wanted: readonly string[],
  path: Path = [],
): readonly { readonly path: Path; readonly holder: Mapping }[] {
  if (typeof data !== 'object' || data === null) return [];
  const [next, ...rest] = wanted;
  if (next === undefined) return Array.isArray(data) ? [] : [{ path, holder: data as Mapping }];
  if (next !== '*') return Object.hasOwn(data, next) ? holdersAt((data as Mapping)[next], rest, [...path, next]) : [];
  const entries = Array.isArray(data) ? data.entries() : Object.entries(data);
  return [...entries].flatMap(([key, value]) => holdersAt(value, rest, [...path, key]));
}
