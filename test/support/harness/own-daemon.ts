import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { postPull } from './post-pull.ts';
import type { Running } from './processes.ts';
import type { Scratch } from './scratch.ts';

const SECRET = 'a-secret-of-sixteen-or-more';

/** A daemon of the workspace `own` and the service of that, both as programs of their own. */
export interface OwnDaemon {
  readonly daemon: Running;
  readonly config: string;
  readonly flags: readonly string[];
  deliver(...numbers: readonly number[]): Promise<void>;
}

/**
 * @param settings lines of the configuration beside workspace and connections
 * @param reach where the daemon is to reach the service of this address; as it is, unless told
 */
export async function startOwnDaemon(
  { folder, start }: Scratch,
  settings: string,
  reach: (url: string) => Promise<string> = async (url) => url,
): Promise<OwnDaemon> {
  const service = start(['workspace', 'serve', '--port', '0', '--db', join(folder, 'service.db'), '--json']);
  const { url, apiKey } = JSON.parse(await service.says('\n')) as { url: string; apiKey: string };
  const config = join(folder, 'own.yaml');
  const connection = `{ connector: github, repositories: [acme/app], webhookSecrets: ${SECRET}, poll: off }`;
  const workspace = `workspace: { url: "${await reach(url)}", apiKey: ${apiKey} }`;
  writeFileSync(config, `${workspace}\n${settings}\nconnections:\n  hooks: ${connection}\n`);
  const flags = ['--config', config, '--data', join(folder, 'data')];
  const daemon = start(['run', ...flags, '--port', '0']);
  const address = /Status page: (\S+)\//.exec(await daemon.says('Status page'))?.[1] ?? '';
  return {
    ...{ daemon, config, flags },
    async deliver(...numbers) {
      for (const number of numbers) {
        const setting = { title: `Number ${number}`, updated: new Date().toISOString(), isOfStranger: true };
        expect(await postPull(`${address}/webhooks/own/hooks`, SECRET, number, setting)).toBe(202);
      }
    },
  };
}
