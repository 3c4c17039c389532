import { z } from 'zod';
import type { Clock } from '../platform/lib/clock.ts';
import type { Actor } from './access/audit.ts';
import type { OpenWorkspace } from './open-workspace.ts';

/** One request about a workspace, for commands and pages. Its body and its answer are plain JSON. */
export interface Operation<Body, Answer> {
  readonly body: z.ZodType<Body>;
  run(workspace: OpenWorkspace, body: NoInfer<Body>, clock: Clock, actor: Actor): Promise<Answer>;
  /** Present if it changes something and does not write its own audit rows. */
  readonly audit?: AuditWords<NoInfer<Body>, NoInfer<Answer>>;
  /** Returns how many things it would change now. Present if it can be postponed. */
  preview?(workspace: OpenWorkspace, body: NoInfer<Body>): Promise<number>;
  /** Milliseconds within which it answers; absent: `ANSWER_MS`. */
  readonly timeoutMs?: number;
  /** Method and path below the address of the workspace; absent: `POST questions/<name>`. */
  readonly route?: readonly [method: 'GET' | 'POST', path: string];
}

interface AuditWords<Body, Answer> {
  isPreview?(body: Body): boolean;
  /** The things that it changes; null or absent: everything that it can. */
  subject?(body: Body): string | null;
  /** How many things it changed; absent: unknown. */
  count?(answer: Answer): number;
  details?(answer: Answer): string;
}

export function operation<Body, Answer>(row: Operation<Body, Answer>): Operation<Body, Answer> {
  return row;
}

/** Milliseconds for an answer from the database. Operations that call vendors take longer. */
export const ANSWER_MS = 30_000;

export const textSchema = z.string().min(1).max(4_000);
export const countSchema = z.int().min(0).max(1_000_000);
export const emptySchema = z.strictObject({});
export const connectionSchema = z.strictObject({ connection: textSchema });
export const connectionOf = ({ connection }: { readonly connection: string }) => connection;
