/**
 * A process that does one piece of work and ends, or kills itself on the way: for the tests of what a kill leaves behind.
 *
 *   node killed-work.ts WORK INPUT STEP    INPUT: JSON; STEP: the number of the step at which it kills itself; 0 for never
 *
 * Prints how many steps it took as JSON. Steps are commits, requests, calls that change files, and portions of a backup.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import BetterSqlite from 'better-sqlite3';
import type { Steps } from '../../../src/platform/lib/telemetry.ts';
import { numberedSteps } from './numbered-steps.ts';

export interface WorkInputs {
  readonly migrate: { readonly place: string };
  readonly copy: { readonly from: string; readonly to: string };
  readonly 'back-up': { readonly data: string; readonly destination: string };
  /** Replaces an API key by another one, whose secret goes into the file. */
  readonly rotate: { readonly url: string; readonly token: string; readonly keyId: string; readonly path: string };
}

type Works = { readonly [Name in keyof WorkInputs]: (input: WorkInputs[Name], steps: Steps) => Promise<unknown> };

const WORKS: Works = {
  async migrate({ place }, steps) {
    const { openTables } = await import('../../../src/store/installation/installation.ts');
    await (await openTables({ file: place, steps })).close();
  },
  async copy({ from, to }, steps) {
    const { openTables } = await import('../../../src/store/installation/installation.ts');
    const { copyStore } = await import('../../../src/store/copy/copy-store.ts');
    const [source, target] = [await openTables({ file: from }), await openTables({ file: to, steps })];
    await copyStore({
      source,
      target,
      carry: (_table, row) => row,
      done: async () => undefined,
      tell: () => undefined,
    });
    await Promise.all([source.close(), target.close()]);
  },
  async 'back-up'({ data, destination }) {
    const { backUp } = await import('../../../src/admin/installation/data.ts');
    await backUp({ data }, destination);
  },
  async rotate({ url, token, keyId, path }, steps) {
    const { keyFile, rotateKey } = await import('../../../src/cli/access/key-rotation.ts');
    const { createHttpClient } = await import('../../../src/platform/http/http-client.ts');
    const { createSend, createWorkspaceClient } = await import('../../../src/workspace-api/typed-client.ts');
    const { fastClock } = await import('../fakes/crash-clock.ts');
    const http = createHttpClient({ steps });
    await rotateKey({
      client: createWorkspaceClient({
        send: createSend({ http, baseUrl: url, apiKey: () => token }),
        workspaceId: 'current',
      }),
      ...{ clock: fastClock(), description: 'the new one', oldKeyId: keyId, file: keyFile(path) },
      ...{ quiet: 60_000, patience: 3_600_000, tell: () => undefined },
    });
    await http.close();
  },
};

/** Calls that change what is in a folder. */
function numberFileCalls({ reached }: Steps): void {
  for (const name of ['renameSync', 'rmSync', 'writeSync'] as const) {
    const own = fs[name] as (...given: unknown[]) => unknown;
    Object.assign(fs, {
      [name](...given: unknown[]) {
        reached('commit', 'before');
        const result = own(...given);
        reached('commit', 'after');
        return result;
      },
    });
  }
  syncBuiltinESMExports();
}

function numberBackups({ reached }: Steps): void {
  const own = BetterSqlite.prototype.backup;
  BetterSqlite.prototype.backup = function backup(destination, options) {
    const progress: NonNullable<typeof options>['progress'] = (info) => {
      reached('commit', 'before');
      return options?.progress?.(info) ?? 100;
    };
    return own.call(this, destination, { ...options, progress });
  };
}

const [work, input, step] = process.argv.slice(2);
const steps = numberedSteps(Number(step));
numberFileCalls(steps);
if (work === 'back-up') numberBackups(steps);
// Timers of a command do not keep its process.
const working = setInterval(() => undefined, 1_000);
await WORKS[work as keyof WorkInputs](JSON.parse(input as string) as never, steps);
clearInterval(working);
process.stdout.write(JSON.stringify({ steps: steps.count() }));
