import { parse, stringify } from 'yaml';
import { SyncError } from '../../model/errors/sync-error.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A workspace file as it is written: no variable is put in, and nothing is checked. */
export interface WrittenSettings {
  readonly workspace?: Fields | null;
  readonly connections?: Readonly<Record<string, Fields | null>> | null;
}

/** Throws `config_invalid` for what is no YAML. */
export function writtenSettings(text: string): WrittenSettings {
  try {
    return (parse(text) ?? {}) as WrittenSettings;
  } catch (cause) {
    throw new SyncError('config_invalid', `the draft is no YAML: ${(cause as Error).message}`, { cause });
  }
}

/**
 * The workspace file for a job of a CI service, without comments. Webhooks reach no job, so their settings are left out, and with
 * them the interval of polls, which a job begins with.
 */
export function jobConfig(name: string, { workspace, connections, ...others }: WrittenSettings): string {
  const { webhook: _, ...reached } = workspace ?? {};
  const polled = Object.entries(connections ?? {}).map(([connection, given]) => {
    const { webhookSecrets: _secrets, poll: _poll, ...own } = given ?? {};
    return [connection, own];
  });
  return stringify({ name, workspace: reached, ...others, connections: Object.fromEntries(polled) }, { lineWidth: 0 });
}
