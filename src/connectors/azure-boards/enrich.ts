import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import { absent } from '../kit/fields.ts';
import { readable } from '../kit/json.ts';
import type { Directory } from './directory.ts';
import * as schema from './schema.ts';

const about = z.object({
  fields: z.object({ 'System.State': absent(z.string().min(1)), 'System.WorkItemType': absent(z.string().min(1)) }),
});

/** A work item as it is stored: what is read of it, its project by id and name, and the category of its state. */
export async function enrich(
  found: unknown,
  project: schema.Project,
  directory: Directory,
  signal: AbortSignal,
): Promise<unknown> {
  const kept = schema.slim(found);
  if (typeof kept !== 'object' || kept === null) return kept;
  const category = await categoryOf(found, project, directory, signal);
  return { ...kept, project, ...(category === undefined ? {} : { category }) };
}

/** Undefined where the process no longer knows the type or the state: the item then keeps the state it has. */
export async function categoryOf(
  found: unknown,
  project: schema.Project,
  directory: Directory,
  signal: AbortSignal,
): Promise<string | undefined> {
  const data = readable(about, found);
  const { 'System.State': state, 'System.WorkItemType': type } = data?.fields ?? {};
  if (state === undefined || type === undefined) return undefined;
  try {
    return (await directory.states(project.id, type, signal)).find(({ name }) => name === state)?.category;
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code === 'not_found') return undefined;
    throw error;
  }
}
