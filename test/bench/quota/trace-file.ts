import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { Line } from './references/trace.ts';

const line = z.strictObject({
  at: z.number().min(0),
  connection: z.string().min(1),
  event: z.string().min(1),
  item: z.string().regex(/^[^/]+\/[^/]+$/, 'expected <repository>/<number>'),
  fields: z.strictObject({
    title: z.string(),
    description: z.string().default(''),
    state: z.enum(['open', 'closed', 'merged']).default('open'),
    draft: z.boolean().default(false),
    reviewers: z.array(z.string()).default([]),
    labels: z.array(z.string()).default([]),
    assignees: z.array(z.string()).default([]),
    head: z.string().default(''),
  }),
  /** When it became so at the provider; a replay or a poll tells it later. */
  updated: z.number().optional(),
});

/** A trace of deliveries, one JSON object on each line, in order of time. Throws what names the line that is wrong. */
export function readTrace(path: string): Line[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  const trace = lines.flatMap((text, index) => (text.trim() === '' ? [] : [readLine(text, `${path}:${index + 1}`)]));
  if (trace.length === 0) throw new Error(`${path}: there is nothing in it`);
  return trace.toSorted((left, right) => left.at - right.at);
}

function readLine(text: string, where: string): Line {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Error(`${where}: this is no JSON`, { cause });
  }
  const read = line.safeParse(value);
  if (!read.success) throw new Error(`${where}: ${z.prettifyError(read.error)}`);
  return { ...read.data, updated: read.data.updated ?? read.data.at };
}
