import type { Item } from '../model/item.ts';
import type { LinkReason } from '../model/link.ts';

/** A task that an item's text names, whether or not a task of that key exists. */
export interface Mention {
  readonly taskKey: string;
  readonly reason: LinkReason;
}

/**
 * `BUG-12`: an upper-case word, a hyphen, a number, with nothing alphanumeric on either side. The left boundary also
 * keeps matching linear: a run of letters has one place to start.
 */
const TASK_KEY = /(?<![A-Za-z0-9])[A-Z][A-Z0-9]*-[1-9][0-9]{0,8}(?![A-Za-z0-9])/g;

/** More names than this in one text are a list of something else. */
const MOST_MENTIONS = 50;

/**
 * The task keys that an item names in its branch or title, each once, with the first place that names it. Look-alikes
 * (`UTF-8`, `CVE-2026`) are among them: whether a key is a task is decided against the cached keys, at no cost.
 */
export function mentionsOf(item: Item): readonly Mention[] {
  const found = new Map<string, Mention>();
  for (const [place, text] of placesOf(item)) {
    for (const [taskKey] of text.matchAll(TASK_KEY)) {
      if (!found.has(taskKey)) found.set(taskKey, { taskKey, reason: { rule: 'task-key', place, text: taskKey } });
      if (found.size >= MOST_MENTIONS) return [...found.values()];
    }
  }
  return [...found.values()];
}

function placesOf(item: Item): [place: string, text: string][] {
  const places: [string, string][] = [];
  // Branch names are often typed in lower case; in prose only the key as the workspace writes it counts.
  if (item.kind === 'pull_request' && item.headBranch) places.push(['branch', item.headBranch.toUpperCase()]);
  if (item.title) places.push(['title', item.title]);
  return places;
}
