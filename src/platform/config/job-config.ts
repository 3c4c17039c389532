import { parse, stringify } from 'yaml';
import { SyncError } from '../../model/errors/sync-error.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A workspace file as written: its variables are not replaced, and nothing is validated. */
export interface WrittenSettings {
  readonly workspace?: Fields | null;
  readonly connections?: Readonly<Record<string, Fields | null>> | null;
}

/** Parses a workspace file. Throws `config_invalid` if it is not YAML. */
export function writtenSettings(text: string): WrittenSettings {
  try {
    return (parse(text) ?? {}) as WrittenSettings;
  } catch (cause) {
    throw new SyncError('config_invalid', `the draft is not valid YAML: ${(cause as Error).message}`, { cause });
  }
}

/**
 * Returns the workspace file for a CI job, without comments. Leaves out the settings of webhooks, which cannot reach a job, and the
 * interval of polls, because a job polls when it starts.
 */
export function jobConfig(name: string, { workspace, connections, ...others }: WrittenSettings): string {
  const { webhook: _, ...reached } = workspace ?? {};
  const polled = Object.entries(connections ?? {}).map(([connection, given]) => {
    const { webhookSecrets: _secrets, poll: _poll, ...own } = given ?? {};
    return [connection, own];
  });
  return stringify({ name, workspace: reached, ...others, connections: Object.fromEntries(polled) }, { lineWidth: 0 });
}
