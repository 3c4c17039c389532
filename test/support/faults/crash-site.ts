import { type ChildProcess, fork } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Webhooks } from '@octokit/webhooks';
import { stringify } from 'yaml';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createWorkspaceService } from '../../../src/reference-service/service.ts';
import { createSend, createWorkspaceClient } from '../../../src/workspace-api/typed-client.ts';
import { fastClock } from '../fakes/crash-clock.ts';
import { COMPILE_CACHE } from '../harness/processes.ts';
import { sessionsEnded } from '../postgres/server-sessions.ts';
import { ON_POSTGRES, storePlace } from '../postgres/store-place.ts';
import type { pullEvent } from '../vendors/github-payloads.ts';
import type { ChildInput, FromChild, ToChild } from './crash-child.ts';
import { type FastDaemon, startFastDaemon } from './crash-daemon.ts';

/** A delivery of the story; sent again until it is acknowledged, and then never again. */
interface StoryDelivery {
  readonly id: string;
  readonly payload: ReturnType<typeof pullEvent>;
}

/** Deliveries that come in one after another; before the next chapter everything is settled, and the configuration changed. */
export type Story = readonly (readonly StoryDelivery[])[];

/** How a daemon in a process of its own came to its end. */
type ChildEnd =
  | { readonly killed: true }
  | { readonly killed: false; readonly steps: readonly string[]; readonly commits: number };

/** How a process with a daemon is started otherwise than usual. */
export interface ChildStart {
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
}

/** Told at once what must not be lost from then on. */
export interface Witness {
  acknowledged(id: string): void;
  /** @param at by the fast clock */
  requested(at: number): void;
}

export type Site = Awaited<ReturnType<typeof openSite>>;

/** How often a sender repeats a delivery that was not stored. */
const ATTEMPTS = 100;

const SECRET = 'a webhook secret for tests only';

/** Small enough that the daemon has to wait for both windows on its way. */
export const QUOTA = { requests: 14, window: 150_000, burst: 6, burstWindow: 60_000 };

/** A workspace service that outlives the daemons in front of it, and the sender of the deliveries. */
export async function openSite(witness?: Witness) {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-crash-'));
  const seen = {
    ...{ requests: 0, refused: 0 },
    /** When each came, by the fast clock; and by path how often 201 was the answer. */
    ...{ arrivals: [] as number[], created: new Map<string, number>() },
  };
  const clock = fastClock();
  const acknowledged = new Set<string>();
  let key = '';
  const isDaemon = (headers: Readonly<Record<string, unknown>>) => headers['authorization'] === `Bearer ${key}`;
  const service = await createWorkspaceService({
    file: join(folder, 'service.db'),
    clock,
    random: systemRandom(),
    logger: silentLogger,
    quota: QUOTA,
    faults: {
      async before({ headers }) {
        if (!isDaemon(headers)) return undefined;
        seen.requests++;
        const at = clock.monotonic();
        seen.arrivals.push(at);
        witness?.requested(at);
        return undefined;
      },
      async after({ headers, url }, { status }) {
        if (!isDaemon(headers)) return undefined;
        if (status === 429) seen.refused++;
        if (status === 201) seen.created.set(url, (seen.created.get(url) ?? 0) + 1);
        return undefined;
      },
    },
  });
  const url = await service.listen({ host: '127.0.0.1', port: 0 });
  const credentials = await service.startCredentials();
  key = credentials.apiKey;
  const http = createHttpClient();
  const send = createSend({ http, baseUrl: url, apiKey: () => credentials.oauthToken });
  const configure = (chapter: number) => writeConfig(folder, { url, apiKey: key }, chapter);
  const config = configure(0);
  const name = `crash_${basename(folder)}`;
  const place = ON_POSTGRES ? await storePlace(join(folder, 'store')) : undefined;
  const places = {
    ...{ config, data: join(folder, 'data') },
    ...(place !== undefined && { store: `${place}&application_name=${name}` }),
  };

  async function deliver(address: string, { id, payload }: StoryDelivery): Promise<void> {
    if (acknowledged.has(id)) return;
    const body = JSON.stringify(payload);
    const headers = {
      'content-type': 'application/json',
      'x-github-event': 'pull_request',
      'x-github-delivery': id,
      'x-hub-signature-256': await new Webhooks({ secret: SECRET }).sign(body),
    };
    const target = `${address}/webhooks/test/github`;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const { status } = await http.request({ method: 'POST', url: target, headers, body, target: 'test' });
      if (status === 202) {
        acknowledged.add(id);
        witness?.acknowledged(id);
        return;
      }
      // On a busy machine the commit may take longer than the fast clock lets a webhook wait.
      await setTimeout(100);
    }
  }

  async function tell(story: Story, address: string, daemon: Pick<FastDaemon, 'settled' | 'reload'>): Promise<void> {
    for (const [index, chapter] of story.entries()) {
      if (index > 0) {
        configure(index);
        await daemon.reload();
      }
      for (const delivery of chapter) await deliver(address, delivery);
      await daemon.settled();
    }
  }

  return {
    people: createWorkspaceClient<object>({ send, workspaceId: 'current' }),
    seen,
    acknowledged: acknowledged as ReadonlySet<string>,
    data: places.data,
    /** Runs the story against a daemon that kills itself at a step; 0: never. */
    async runChild(story: Story, killAt: number, start?: ChildStart): Promise<ChildEnd> {
      const child = startChild({ ...places, killAt }, start);
      const settled = async () => void (await child.ask('settle', 'settled'));
      const reload = async () => void (await child.ask('reload', 'reloaded'));
      try {
        const ready = await child.hear('ready');
        await tell(story, ready.address, { settled, reload });
        const { steps, commits } = await child.ask('end', 'ended');
        await child.exited;
        return { killed: false, steps, commits };
      } catch (error) {
        if ((await child.exited) !== 'SIGKILL') throw error;
        if (place !== undefined) await sessionsEnded(place, 'application_name', [name]);
        return { killed: true };
      }
    },
    /** Runs what is left of the story against a daemon in this process, which is then open for looking. */
    async runHere(story: Story) {
      const daemon = await startFastDaemon(places);
      await tell(story, daemon.address, daemon);
      return daemon;
    },
    async close() {
      await http.close();
      await service.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** In each chapter one repository more. */
function writeConfig(folder: string, workspace: { url: string; apiKey: string }, chapter: number): string {
  const path = join(folder, 'config');
  mkdirSync(path, { recursive: true });
  const repositories = Array.from({ length: chapter + 1 }, (_, index) => ['acme/app', 'acme/lib'][index] as string);
  const { requests, window, burst, burstWindow } = QUOTA;
  const content = {
    workspace,
    quota: { requests, window: `${window}ms`, burst, burstWindow: `${burstWindow}ms`, share: 1 },
    connections: {
      github: { connector: 'github', repositories, webhookSecrets: SECRET, poll: 'off' },
    },
  };
  writeFileSync(join(path, 'test.yaml'), stringify(content));
  return path;
}

type Said<Say extends FromChild['say']> = Extract<FromChild, { say: Say }>;

function startChild(input: ChildInput, { env, flags = [] }: ChildStart = {}) {
  const process_: ChildProcess = fork(join(import.meta.dirname, 'crash-child.ts'), [JSON.stringify(input)], {
    execArgv: [...flags],
    env: { TZ: 'UTC', NODE_COMPILE_CACHE: COMPILE_CACHE, ...env },
  });
  const exited = new Promise<string | number | null>((resolve) => {
    process_.once('exit', (code, signal) => resolve(signal ?? code));
  });
  /** Rejects when the process ends before it says so. */
  const hear = <Say extends FromChild['say']>(say: Say) =>
    new Promise<Said<Say>>((resolve, reject) => {
      process_.on('message', (message: FromChild) => {
        if (message.say === say) resolve(message as Said<Say>);
      });
      void exited.then((end) => reject(new Error(`the daemon ended (${end}) before it was ${say}`)));
    });
  return {
    hear,
    ask<Say extends FromChild['say']>(order: ToChild, say: Say) {
      const answer = hear(say);
      process_.send(order, () => undefined);
      return answer;
    },
    /** The signal that ended it, or its exit code. */
    exited,
  };
}
