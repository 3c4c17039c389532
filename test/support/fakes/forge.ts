import { z } from 'zod';
import type { Connection, Connector, HistoryPosition, HookState } from '../../../src/connectors/connector.ts';
import { asSyncError, SyncError } from '../../../src/model/errors.ts';
import { type PullRequest, type PullRequestState, pullRequestKey } from '../../../src/model/item.ts';

export interface ForgePull {
  readonly number: number;
  readonly title: string;
  readonly state: PullRequestState;
  /** Epoch milliseconds. */
  readonly updatedAt: number;
}

export interface Forge {
  readonly connector: Connector<unknown>;
  readonly repositories: Map<string, ForgePull[]>;
  /** Failed deliveries that may be asked for, and the webhooks that stand, by repository. */
  failedDeliveries: number;
  readonly hooks: Map<string, { url: string; secret: string; isOn: boolean; flaw?: string }>;
  /** Requests, oldest first: `history app 2`, `fetch app 7`. */
  readonly asked: string[];
  /** Asked before each answer; what it throws is the answer. A list of units and a page of history wait for its end. */
  onAsk: (what: string) => unknown;
}

const ID = 'gitlab';
const HOST = 'forge.example';
const PAGE = 3;

/** A vendor that exists only here, under the id of a real one, since the workspace takes no other providers. */
export function createForge(repositories: Readonly<Record<string, readonly ForgePull[]>> = {}): Forge {
  const forge: Forge = {
    repositories: new Map(Object.entries(repositories).map(([name, pulls]) => [name, [...pulls]])),
    asked: [],
    failedDeliveries: 0,
    hooks: new Map(),
    onAsk: () => undefined,
    connector: {
      id: ID,
      title: 'Forge',
      publicHost: HOST,
      capabilities: { namesDeliveries: true, pullRequests: true },
      largestDelivery: 1_000_000,
      options: z.strictObject({}),
      host: () => HOST,
      async verify({ headers }, secrets) {
        if (!secrets.includes(String(headers['x-forge-secret']))) throw new SyncError('signature_mismatch', 'wrong');
        return { event: 'pull', deliveryId: String(headers['x-forge-delivery']) };
      },
      translate({ body }) {
        const items = JSON.parse(Buffer.from(body).toString()) as PullRequest[];
        return { outcome: 'items', items };
      },
      reference: ({ kind, key }) => ({ kind, key, locator: { key } }),
      connect: () => connectionOf(forge),
    },
  };
  return forge;
}

/** `count` of them, the last one newest, a minute apart until `until`. */
export function pulls(count: number, until: number, first = 1): ForgePull[] {
  return Array.from({ length: count }, (_, index) => ({
    number: first + index,
    title: `Pull ${first + index}`,
    state: 'merged' as const,
    updatedAt: until - (count - index) * 60_000,
  }));
}

export function forgeItem(repoId: string, pull: ForgePull): PullRequest {
  const { number, title, state, updatedAt } = pull;
  const identifier = String(number);
  return {
    kind: 'pull_request',
    key: pullRequestKey(ID, HOST, repoId, identifier),
    connector: ID,
    host: HOST,
    ...{ repoId, identifier, title, state, updatedAt },
    url: `https://${HOST}/${repoId}/${number}`,
    headBranch: 'feature',
    baseBranch: 'main',
  };
}

function connectionOf(forge: Forge): Connection {
  const ask = (what: string) => {
    forge.asked.push(what);
    return forge.onAsk(what);
  };
  const listOf = (unit: string) => {
    const found = forge.repositories.get(unit);
    if (!found) throw new SyncError('not_found', `there is no ${unit}`);
    return found.toSorted((a, b) => b.updatedAt - a.updatedAt);
  };
  const body = (unit: string, found: readonly ForgePull[]) =>
    Buffer.from(JSON.stringify(found.map((pull) => forgeItem(unit, pull))));
  return {
    async units() {
      await ask('units');
      return [...forge.repositories.keys()];
    },
    async poll({ unit, watermark = '1970-01-01T00:00:00Z' }) {
      ask(`poll ${unit}`);
      const found = listOf(unit).filter(({ updatedAt }) => updatedAt >= Date.parse(watermark));
      const newest = Math.max(Date.parse(watermark), ...found.map(({ updatedAt }) => updatedAt));
      return { outcome: 'page', event: 'list', body: body(unit, found), newest: new Date(newest).toISOString() };
    },
    async fetch({ kind, key }) {
      const [, , unit = '', , identifier = ''] = key.split(':');
      ask(`fetch ${unit} ${identifier}`);
      const pull = forge.repositories.get(unit)?.find(({ number }) => String(number) === identifier);
      if (pull) return { event: 'object', body: body(unit, [pull]) };
      const gone = {
        kind,
        key,
        connector: ID,
        host: HOST,
        repoId: unit,
        identifier,
        updatedAt: Date.now(),
        gone: true,
      };
      return { event: 'object', body: Buffer.from(JSON.stringify([gone])) };
    },
    check: async () => [],
    async sweep(unit, page = '1') {
      ask(`sweep ${unit} ${page}`);
      const found = listOf(unit);
      const from = (Number(page) - 1) * PAGE;
      return {
        keys: found.slice(from, from + PAGE).map((pull) => forgeItem(unit, pull).key),
        containers: [unit],
        ...(from + PAGE >= found.length ? {} : { next: String(Number(page) + 1) }),
      };
    },
    async redeliver(url, cursor) {
      const round = Number(cursor ?? 0) + 1;
      try {
        ask(`redeliver ${url} behind ${cursor}`);
        return { requested: forge.failedDeliveries, cursor: String(round) };
      } catch (thrown) {
        return { requested: 1, cursor: String(round), failure: asSyncError(thrown) };
      }
    },
    hooks: {
      async states(url) {
        ask(`hooks ${url}`);
        return [...forge.repositories.keys()].map((subject) => hookState(forge, subject, url));
      },
      async install(url, secret) {
        return [...forge.repositories.keys()].map((subject) => {
          const before = forge.hooks.get(subject);
          const outcome = before === undefined ? 'created' : before.isOn ? 'unchanged' : 'updated';
          forge.hooks.set(subject, { url, secret, isOn: true });
          return { ...hookState(forge, subject, url), outcome };
        });
      },
    },
    async history({ unit, since = '1970-01-01T00:00:00Z', page = '1' }: HistoryPosition) {
      await ask(`history ${unit} ${page}`);
      const found = listOf(unit).filter(({ updatedAt }) => updatedAt >= Date.parse(since));
      const from = (Number(page) - 1) * PAGE;
      const isLast = from + PAGE >= found.length;
      return {
        event: 'list',
        body: body(unit, found.slice(from, from + PAGE)),
        total: found.length,
        ...(isLast ? {} : { next: String(Number(page) + 1) }),
      };
    },
  };
}

function hookState(forge: Forge, subject: string, url: string): HookState {
  const hook = forge.hooks.get(subject);
  if (hook?.url !== url) return { subject, state: 'absent', message: 'there is none' };
  if (hook.flaw !== undefined) return { subject, state: 'active', message: hook.flaw, hint: 'mend it' };
  return hook.isOn
    ? { subject, state: 'active', message: 'on' }
    : { subject, state: 'disabled', message: 'switched off' };
}
