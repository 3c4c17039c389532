import type { Chance } from '../bench/quota/references/chance.ts';

/** A description that names tasks, or only seems to. */
export interface Prose {
  readonly kind: number;
  readonly task: number;
  readonly other: number;
  readonly item: number;
}

export interface Written {
  readonly text: string;
  readonly keys: readonly string[];
  readonly isOfItem: boolean;
}

type Write = (task: string, other: string, page: string) => readonly [text: string, ...names: string[]];

export const STORIES = { pattern: 'story ([0-9]+)', place: ['description'], task: 'BUG-$1' };
const story = (task: string) => task.replace('BUG-', 'story ');

const KINDS: readonly Write[] = [
  (task) => [`Part of ${task}.`, task],
  (task, other) => [`Closes ${task} and ${other}`, task, other],
  (task, other) => [`__${task}__, *${other}*`, task, other],
  (task) => [`The name \`${task}\` is an example`],
  (task, other) => [`\`\`\`\n${task}\n\`\`\`\nCode, then ${other}`, other],
  (task) => [`~~~\n${task}`],
  (task) => [`> ${task}\n\nQuoted`],
  (task, other) => [`<!-- ${task} -->Hidden, ${other} is not`, other],
  (task, other) => [`<code>${task}</code> marked, ${other} is not`, other],
  (task) => [`See http://workspace.test/tasks/${task}`, task],
  (task) => [`See https://elsewhere.test/${task}`],
  (task, other) => [`[${task}](http://workspace.test/tasks/${other})`, task, other],
  (task) => [`Neither x${task} nor ${task}x nor Ä${task}`],
  (task) => [`Words.\n\nTask: ${task.toLowerCase()}`, task],
  (task) => [`Task: ${task.toLowerCase()}\nA line that is no trailer`],
  (_task, _other, page) => [`Fixes ${page}`, page],
  (task, _other, page) => [`${task}: ${page}.`, task, page],
  (task, other) => [`As in ${story(task)}, ${story(other)}`, task, other],
  (task, other) => [`Not in \`${story(task)}\`, but in ${story(other)}`, other],
];

export function drawProse(chance: Chance): Prose {
  const number = () => chance.whole(1, 8);
  return { kind: chance.whole(0, KINDS.length - 1), task: number(), other: number(), item: number() };
}

/** @param page of the item, as people paste it; empty: there is none */
export function write({ kind, task, other }: Prose, page: string): Written {
  const [text, ...names] = (KINDS[kind] as Write)(`BUG-${task}`, `BUG-${other}`, page);
  return { text, keys: names.filter((name) => name !== page), isOfItem: page !== '' && names.includes(page) };
}
