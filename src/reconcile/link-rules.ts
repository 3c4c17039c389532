import type { Item } from '../model/item.ts';
import type { LinkReason } from '../model/link.ts';

/** A task that an item's text names, whether or not a task of that key exists. */
export interface Mention {
  readonly taskKey: string;
  readonly reason: LinkReason;
}

/**
 * `BUG-12`: an upper-case word, a hyphen, a number, with no digit and no letter of a cased script on either side. Scripts
 * without case are written without spaces around a foreign word, so their letters end a key. The left boundary also
 * keeps matching linear: a run of letters has one place to start.
 */
const TASK_KEY = /(?<![\p{Lu}\p{Ll}\p{Lt}\p{Nd}])[A-Z][A-Z0-9]*-[1-9][0-9]{0,8}(?![\p{Lu}\p{Ll}\p{Lt}\p{Nd}])/gu;

/** More names than this in one text are a list of something else. */
const MOST_MENTIONS = 50;

/**
 * The task keys that an item names in its branch or title, each once, with the first place that names it. Look-alikes
 * (`UTF-8`, `CVE-2026`) are among them: whether a key is a task is decided against the cached keys, at no cost.
 */
export function mentionsOf(item: Item): readonly Mention[] {
  const found = new Map<string, Mention>();
  for (const { place, text, folded } of placesOf(item)) {
    for (const { 0: taskKey, index } of folded.matchAll(TASK_KEY)) {
      if (found.has(taskKey)) continue;
      const asItStood = text.slice(index, index + taskKey.length);
      found.set(taskKey, { taskKey, reason: { rule: 'task-key', place, text: asItStood } });
      if (found.size >= MOST_MENTIONS) return [...found.values()];
    }
  }
  return [...found.values()];
}

interface Place {
  readonly place: string;
  readonly text: string;
  /** The text as it is searched: of the same length. */
  readonly folded: string;
}

function placesOf(item: Item): Place[] {
  const places: Place[] = [];
  // Branch names are often typed in lower case; in prose only the key as the workspace writes it counts.
  if (item.kind === 'pull_request' && item.headBranch) {
    const folded = item.headBranch.replace(/[a-z]+/g, (letters) => letters.toUpperCase());
    places.push({ place: 'branch', text: item.headBranch, folded });
  }
  if (item.title) places.push({ place: 'title', text: item.title, folded: item.title });
  return places;
}
