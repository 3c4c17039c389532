import { createHmac } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { pullEvent } from '../../vendors/github-payloads.ts';
import { type Cluster, SECRET, SIGNING_KEY } from './cluster.ts';
import { type CountedWorkspace, isAmple, subjectOf } from './counted-service.ts';

const PAUSE = 150;
/** Before a refused delivery is tried elsewhere, milliseconds. */
const AGAIN_AFTER = 100;
/** Then it is tried elsewhere, as a proxy in front would, milliseconds. */
const ANSWER_WITHIN = 2_000;

interface Delivery {
  readonly connection: string;
  readonly title: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

export type Load = ReturnType<typeof createLoad>;

/**
 * A sender of webhooks, who delivers again what was refused.
 *
 * @param mostSpecified pull requests and items of each workspace with the specified quota, so that they are all sent some day
 */
export function createLoad(
  { replicas, workspaces }: Pick<Cluster, 'replicas' | 'workspaces'>,
  options: { readonly senders: number; readonly mostSpecified: number },
) {
  /** The title that was acknowledged last of each pull request and each item, by workspace and what it begins with. */
  const acknowledged = new Map<string, Map<string, string>>(workspaces.map(({ name }) => [name, new Map()]));
  const pulls = new Map<string, number>();
  let refused = 0;
  let total = 0;
  let version = 0;
  let turn = 0;
  let isStopped = false;
  let senders: readonly Promise<void>[] = [];

  async function deliver({ name }: CountedWorkspace, delivery: Delivery): Promise<string> {
    const { connection, title, body, headers } = delivery;
    for (;;) {
      const living = replicas.filter((replica) => replica.isAlive());
      const to = living[turn++ % Math.max(1, living.length)];
      const signal = AbortSignal.timeout(ANSWER_WITHIN);
      const request = { method: 'POST', headers, body, signal };
      const answer =
        to && (await fetch(`${to.address}/webhooks/${name}/${connection}`, request).catch(() => undefined));
      await answer?.arrayBuffer().catch(() => undefined);
      if (answer?.ok) break;
      if (answer?.status === 401 || answer?.status === 400) throw new Error(`refused: ${answer.status}`);
      refused++;
      await pause(AGAIN_AFTER);
    }
    total++;
    const own = acknowledged.get(name) as Map<string, string>;
    // Answers may overtake each other; what is newer stays.
    if (versionOf(own.get(subjectOf(title))) < versionOf(title)) own.set(subjectOf(title), title);
    return title;
  }

  const next = ({ name }: CountedWorkspace) => {
    const number = (pulls.get(name) ?? 0) + 1;
    pulls.set(name, number);
    return number;
  };
  const post = (workspace: CountedWorkspace) => deliver(workspace, pullOf(workspace.name, next(workspace), ++version));

  /** New pull requests, changes of those that are there, and items. */
  function deliveryOf(workspace: CountedWorkspace, round: number): Delivery {
    const present = pulls.get(workspace.name) ?? 0;
    if (round % 3 === 2) return itemOf(workspace.name, ++version);
    if (round % 3 === 1 && present > 0) return pullOf(workspace.name, 1 + (round % present), ++version);
    return pullOf(workspace.name, next(workspace), ++version);
  }

  /** Each sender has workspaces of its own: of one pull request nothing overtakes anything. */
  async function send(own: readonly CountedWorkspace[]): Promise<void> {
    for (let round = 0; !isStopped; round++) {
      const workspace = own[round % own.length] as CountedWorkspace;
      const isMore = isAmple(workspace) || (acknowledged.get(workspace.name)?.size ?? 0) < options.mostSpecified;
      if (isMore) await deliver(workspace, deliveryOf(workspace, Math.floor(round / own.length)));
      await pause(PAUSE);
    }
  }

  return {
    acknowledged,
    count: () => ({ acknowledged: total, refused }),
    /** One more pull request of this workspace; resolves with its title when it is acknowledged. */
    post,
    start() {
      isStopped = false;
      // The quota of the specified ones is used up as soon as it can be.
      const [ample, specified] = [workspaces.filter(isAmple), workspaces.filter((each) => !isAmple(each))];
      const shares = Array.from({ length: options.senders }, (_, sender) =>
        ample.filter((_each, index) => index % options.senders === sender),
      );
      senders = [...shares, specified].filter((own) => own.length > 0).map(send);
    },
    async stop() {
      isStopped = true;
      await Promise.all(senders);
    },
  };
}

function pullOf(workspace: string, number: number, version: number): Delivery {
  const title = `Change ${number}, version ${version}`;
  const updated = new Date(Date.UTC(2026, 0, 5, 9) + version * 1_000).toISOString().replace('.000', '');
  const body = JSON.stringify(pullEvent({ number, title, updated, head: `branch-${number}` }));
  const headers = {
    'content-type': 'application/json',
    'x-github-event': 'pull_request',
    'x-github-delivery': `${workspace}-${version}`,
    'x-hub-signature-256': `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`,
  };
  return { connection: 'github', title, body, headers };
}

function itemOf(workspace: string, version: number): Delivery {
  const title = `Item ${version}, once`;
  const now = Date.now();
  const data = {
    ...{ id: String(version), project: { id: 'web', name: 'Website' }, identifier: `WEB-${version}`, title },
    ...{ createdAt: new Date(now).toISOString(), updatedAt: new Date(now).toISOString() },
    ...{
      url: `https://desk.example.com/tickets/${version}`,
      state: 'open',
      rawState: 'New',
      labels: [],
      assignees: [],
    },
  };
  const body = JSON.stringify({ type: 'item.created', timestamp: data.updatedAt, data });
  const id = `${workspace}-item-${version}`;
  const seconds = String(Math.floor(now / 1_000));
  const signature = createHmac('sha256', SIGNING_KEY).update(`${id}.${seconds}.${body}`).digest('base64');
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': seconds,
    'webhook-signature': `v1,${signature}`,
  };
  return { connection: 'desk', title, body, headers };
}

function versionOf(title = ''): number {
  return Number(/version (\d+)$/.exec(title)?.[1] ?? (title === '' ? -1 : 0));
}
