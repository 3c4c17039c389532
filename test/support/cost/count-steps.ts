import { Session } from 'node:inspector';
import { createMatcher, type Matcher } from './matcher.ts';

/**
 * How many steps a piece of work takes: the same number on every machine and at every load. Counted are
 * - the blocks of JavaScript that run, of this project and of the packages that it uses (V8's precise coverage);
 * - the steps of regular expressions, each run by a matcher that counts (`matcher.ts`);
 * - the characters and elements that built-in methods of strings and arrays look through or copy. A text that was put
 *   together from pieces costs its length once, when a method first looks into it: that is when V8 copies it.
 */
export interface StepCounter {
  /** Work that awaits nothing. */
  count(work: () => unknown): number;
  close(): void;
}

interface Steps {
  count: number;
}

/** Everything in the process runs slower until it is closed. */
export function openStepCounter(): StepCounter {
  const session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  return {
    count(work) {
      const steps: Steps = { count: 0 };
      blocksSince(session);
      const restore = replaceBuiltIns(steps);
      try {
        work();
      } finally {
        restore();
      }
      return steps.count + blocksSince(session);
    },
    close: () => session.disconnect(),
  };
}

/** Blocks that ran since this was asked before. */
function blocksSince(session: Session): number {
  let blocks = 0;
  session.post('Profiler.takePreciseCoverage', (error, { result }) => {
    if (error) throw error;
    for (const { url, functions } of result) {
      if (!isCounted(url)) continue;
      for (const { ranges } of functions) for (const { count } of ranges) blocks += count;
    }
  });
  return blocks;
}

/** Not what counts, and not what runs the tests. */
function isCounted(url: string): boolean {
  if (url === '' || url.startsWith('node:')) return false;
  return !/\/test\/|\/node_modules\/(@eslint-community|vitest|@vitest|vite|fast-check|pure-rand)\//.test(url);
}

type Method = (this: unknown, ...given: unknown[]) => unknown;
type Cost = (subject: never, given: readonly unknown[], result: unknown) => number;

/** Methods that look through a text from somewhere on until they find what they look for. */
const looked: Cost = (subject: string, [sought, from], result) => {
  const start = typeof from === 'number' && from > 0 ? Math.min(from, subject.length) : 0;
  return (typeof result === 'number' && result >= 0 ? result : subject.length) - start + String(sought).length;
};
const whole: Cost = (subject: string) => subject.length;
const sought: Cost = (_, [text]) => String(text).length;
const made: Cost = (_, __, result: unknown) => (result as { length: number }).length;
const one: Cost = () => 1;

const OF_STRINGS: Readonly<Record<string, Cost>> = {
  indexOf: looked,
  includes: (subject: string, given) => looked(subject as never, given, subject.indexOf(String(given[0]))),
  lastIndexOf: (subject: string, [, from], result) =>
    (typeof from === 'number' ? Math.min(from, subject.length) : subject.length) - Math.max(0, result as number),
  startsWith: sought,
  endsWith: sought,
  split: whole,
  replace: whole,
  replaceAll: whole,
  trim: (subject: string, _, result) => subject.length - (result as string).length + 1,
  trimStart: (subject: string, _, result) => subject.length - (result as string).length + 1,
  trimEnd: (subject: string, _, result) => subject.length - (result as string).length + 1,
  toUpperCase: whole,
  toLowerCase: whole,
  normalize: whole,
  localeCompare: whole,
  repeat: made,
  padStart: made,
  padEnd: made,
  at: one,
  charAt: one,
  charCodeAt: one,
  codePointAt: one,
  // A piece of a text is a reference into it.
  slice: one,
  substring: one,
};

const size: Cost = (subject: readonly unknown[]) => subject.length;
const OF_ARRAYS: Readonly<Record<string, Cost>> = {
  join: made,
  includes: size,
  indexOf: size,
  slice: made,
  splice: size,
  shift: one,
  unshift: size,
  concat: made,
  flat: made,
  reverse: size,
  toReversed: size,
};

/** As many texts are known to be in one piece as a program works on at a time. */
const MOST_FLAT = 64;
/** Shorter ones are in one piece, or soon are. */
const SHORTEST_ROPE = 256;

const { apply } = Reflect;

function replaceBuiltIns(steps: Steps): () => void {
  const undo: (() => void)[] = [];
  const replace = (owner: object, name: PropertyKey, by: (original: Method) => Method) => {
    const before = Object.getOwnPropertyDescriptor(owner, name) as PropertyDescriptor;
    undo[undo.length] = () => Object.defineProperty(owner, name, before);
    Object.defineProperty(owner, name, { ...before, value: by(before.value as Method) });
  };
  const flatten = createFlattener(steps);
  /** The counter uses functions that it replaces: this flag prevents recursion. */
  let isInside = false;
  const charge = (owner: object, name: PropertyKey, cost: Cost, isText: boolean) =>
    replace(owner, name, (original) => {
      return function (this: unknown, ...given) {
        if (isInside) return apply(original, this, given);
        if (isText) flatten(this as string);
        const result = apply(original, this, given);
        steps.count += Math.max(1, cost(this as never, given, result));
        return result;
      };
    });
  for (const [name, cost] of Object.entries(OF_STRINGS)) charge(String.prototype, name, cost, true);
  charge(String.prototype, Symbol.iterator, whole, true);
  for (const [name, cost] of Object.entries(OF_ARRAYS)) charge(Array.prototype, name, cost, false);
  charge(JSON, 'parse', (_, [text]) => String(text).length, false);
  charge(JSON, 'stringify', (_, __, result) => String(result).length, false);
  charge(TextDecoder.prototype, 'decode', (_, [bytes]) => (bytes as Uint8Array).byteLength, false);
  charge(URL, 'parse', (_, [text]) => String(text).length, false);
  replace(RegExp.prototype, 'exec', (original) => {
    const count = createExec(steps, flatten);
    return function (this: unknown, ...given) {
      if (isInside) return apply(original, this, given);
      isInside = true;
      try {
        return apply(count, this, given);
      } finally {
        isInside = false;
      }
    };
  });
  return () => {
    for (const each of undo) each();
  };
}

/** Charges for a text that is looked into for the first time. Uses nothing that is replaced. */
function createFlattener(steps: Steps): (text: string) => void {
  const flat: string[] = [];
  let next = 0;
  return (text) => {
    if (typeof text !== 'string' || text.length < SHORTEST_ROPE) return;
    for (const known of flat) if (known === text) return;
    steps.count += text.length;
    flat[next] = text;
    next = (next + 1) % MOST_FLAT;
  };
}

/** `RegExp.prototype.exec` over the counting matcher; all that takes a pattern goes through it. */
function createExec(steps: Steps, flatten: (text: string) => void): Method {
  return function (this: unknown, given) {
    const pattern = this as RegExp;
    const text = String(given);
    const matcher = matcherOf(pattern);
    flatten(text);
    const keeps = pattern.global || pattern.sticky;
    const before = matcher.steps;
    const found = matcher.find(text, keeps ? pattern.lastIndex : 0, pattern.sticky);
    steps.count += matcher.steps - before;
    if (keeps) pattern.lastIndex = found ? found.end : 0;
    if (!found) return null;
    const names = Object.entries(found.names);
    const result = found.groups as RegExpExecArray;
    result.index = found.start;
    result.input = text;
    result.groups =
      names.length === 0 ? undefined : Object.fromEntries(names.map(([group, at]) => [group, found.groups[at] ?? '']));
    return result;
  };
}

const byObject = new WeakMap<RegExp, Matcher>();
const bySource = new Map<string, Matcher>();

function matcherOf(pattern: RegExp): Matcher {
  const known = byObject.get(pattern);
  if (known) return known;
  const name = `/${pattern.source}/${pattern.flags}`;
  const matcher = bySource.get(name) ?? createMatcher(pattern);
  bySource.set(name, matcher);
  byObject.set(pattern, matcher);
  return matcher;
}
