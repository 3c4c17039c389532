import { readable } from '../kit/payload.ts';
import { kindOfHook } from './schema.ts';

/** Names of events that differ from the kind: GitLab sends all work items as issues (GL11). */
const NAMES: Readonly<Record<string, string>> = { work_item: 'Issue', build: 'Job' };

/** The webhook event of a payload, by the name that its header has. */
export function eventOf(payload: unknown): string | undefined {
  const data = readable(kindOfHook, payload);
  if (!data) return undefined;
  const name = NAMES[data.object_kind] ?? words(data.object_kind);
  return data.event_type?.startsWith('confidential_') ? `Confidential ${name} Hook` : `${name} Hook`;
}

/** `tag_push` → `Tag Push` */
function words(kind: string): string {
  return kind.replaceAll('_', ' ').replace(/\b[a-z]/g, (letter) => letter.toUpperCase());
}
