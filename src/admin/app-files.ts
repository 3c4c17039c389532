import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SyncError } from '../model/errors/sync-error.ts';

/** Secrets that a vendor tells once. */
export interface AppSecrets {
  readonly id: string;
  readonly privateKey: string;
  readonly webhookSecret: string | null;
}

const NAMES = { id: 'github-app.id', privateKey: 'github-app.pem', webhookSecret: 'github-app.webhook-secret' };

/** Throws `conflict` where a file is there already: before anything is made that could not be stored. */
export function refusePresentFiles(folder: string): void {
  const present = Object.values(NAMES)
    .map((name) => join(folder, name))
    .filter((path) => existsSync(path));
  if (present.length === 0) return;
  const hint = 'Name another folder with --folder, or move them away. Nothing was made.';
  throw new SyncError('conflict', `already there: ${present.join(', ')}`, { hint });
}

/** Writes them for this user only. @returns the variables of the configuration that name the files */
export function writeAppFiles(folder: string, app: AppSecrets): Readonly<Record<string, string>> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const write = (name: string, content: string) => {
    const path = join(folder, name);
    writeFileSync(path, content.endsWith('\n') ? content : `${content}\n`, { mode: 0o600, flag: 'wx' });
    return path;
  };
  return {
    GITHUB_APP_ID_FILE: write(NAMES.id, app.id),
    GITHUB_PRIVATE_KEY_FILE: write(NAMES.privateKey, app.privateKey),
    ...(app.webhookSecret !== null && {
      GITHUB_WEBHOOK_SECRET_FILE: write(NAMES.webhookSecret, app.webhookSecret),
    }),
  };
}
