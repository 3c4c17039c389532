import { afterEach, describe, expect, it } from 'vitest';
import type { ConnectionStatus, Status } from '../../../src/admin/status/status.ts';
import type { ServedDaemon } from '../../../src/admin/status/whole-status.ts';
import type { Access } from '../../../src/model/caller.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { createServer, type Server } from '../../../src/platform/http/server.ts';
import { createHealth } from '../../../src/platform/observe/health.ts';
import { createMetrics } from '../../../src/platform/observe/metrics.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';
import type { Caller } from '../../../src/web/access/callers.ts';
import { webRoutes } from '../../../src/web/page-routes.ts';
import { CONNECTION, EMPTY, NOW, QUOTA, statusWith } from '../../support/harness/web.ts';

const closing: Server[] = [];
afterEach(async () => {
  for (const server of closing.splice(0)) await server.close();
});

function serve(status: Status | (() => Status), secrets: string[] = [], caller: Partial<Caller> = {}) {
  const server = createServer();
  const health = createHealth();
  const metrics = createMetrics({ version: 'test' });
  const readers: Access = { role: 'read', workspaces: null };
  server.decorateRequest('caller', null);
  server.addHook('onRequest', async (request) => request.setDecorator('caller', { ...readers, ...caller }));
  const read = async () => (typeof status === 'function' ? status() : status);
  const daemon = { health, metrics, scrub: createScrubber(secrets).scrub } as Partial<ServedDaemon> as ServedDaemon;
  webRoutes(server, daemon, { whole: read, own: read });
  closing.push(server);
  return {
    health,
    get: (url: string) => server.inject(url),
    head: (url: string) => server.inject({ method: 'HEAD', url }),
  };
}

/** A status with this text in every place that holds text. */
function everywhere(text: string): Status {
  const delivery = { id: 1, connection: text, source: 'webhook', event: text, receivedAt: NOW, reason: text } as const;
  const failure = { code: text, message: text, hint: text };
  const row = { entity: text, label: text, kind: 'link', lane: 'link' } as const;
  const change = { ...row, since: NOW, notBefore: 0, attempts: 1, failure };
  const hook = { subject: text, state: 'disabled', message: text, hint: text } as const;
  const hooks = { at: NOW, silent: [hook], failure: text, redeliveryFailure: text };
  const names = [{ name: text, id: text, called: text, elsewhere: text }];
  const connection: ConnectionStatus = {
    ...{ ...CONNECTION, name: text, connector: text, webhookPath: text, schedule: text, hooks, names },
    ...{ failure: { ...failure, unit: text, at: NOW }, fetchRefusal: text, writeRefusal: text, lastPollAt: NOW },
    ...{ refusedFetches: 1, refusedWrites: 1, switchedOff: [text], missingUnits: [text], lastSweepAt: NOW },
  };
  const backfill = {
    ...{ connection: text, since: text, listed: true, units: 1, unitsDone: 0, pages: 1, items: 1, total: 2 },
    ...{ isPaused: false, startedAt: NOW, finishedAt: null, failures: [{ unit: text, error: text, givenUp: true }] },
  };
  const [quarantine, latest] = [
    [{ ...delivery, state: 'quarantined' as const }],
    [{ ...delivery, state: 'applied' as const }],
  ];
  const [stuck, next] = [[{ ...change, state: 'held' as const }], [{ ...change, state: 'pending' as const }]];
  const rows = {
    ...{ backfills: [backfill], connections: [connection] },
    deliveries: { ...EMPTY.deliveries, quarantined: 1, quarantine, latest },
    changes: { ...EMPTY.changes, stuck, next },
  };
  const quota = { ...QUOTA, paused: { until: NOW + 1, code: 'rate_limited', reason: text } as const };
  const halt = new SyncError('unauthorized', text, { hint: text });
  const broken = [{ name: text, code: text, message: text, hint: text }];
  const rest = { version: text, ready: false, components: { [text]: text }, broken };
  return statusWith({ name: text, address: text, halt, quota, ...rows }, rest);
}

describe('probes', () => {
  it('/livez is 200 and says nothing', async () => {
    const { get, head } = serve(statusWith());
    expect([(await get('/livez')).body, (await head('/livez')).statusCode]).toEqual(['ok\n', 200]);
  });

  it('/readyz is 503 with names and reason codes until something has reported and all is well', async () => {
    const { get, health } = serve(statusWith());
    expect((await get('/readyz')).statusCode).toBe(503);
    health.set('store', true);
    health.set('workspace', false, 'unauthorized');
    const answer = await get('/readyz');
    expect([answer.statusCode, answer.json()]).toEqual([
      503,
      { ready: false, components: { store: 'ok', workspace: 'unauthorized' } },
    ]);
    health.set('workspace', true);
    expect((await get('/readyz')).statusCode).toBe(200);
  });
});

describe('/metrics', () => {
  it('tells the same as the status', async () => {
    const deliveries = { ...EMPTY.deliveries, pending: 4, quarantined: 2 };
    const changes = {
      ...EMPTY.changes,
      byState: { pending: 7, sending: 1, unknown: 0, held: 3 },
      // Older than anything that is due first.
      oldest: { link: NOW - 3 * 86_400_000 },
    };
    const quota = {
      ...QUOTA,
      long: { ...QUOTA.long, used: 118 },
      paused: { until: NOW + 30_000, code: 'rate_limited', reason: 'refused' } as const,
    };
    const answer = await serve(statusWith({ deliveries, changes, quota })).get('/metrics');
    expect(answer.headers['content-type']).toContain('text/plain; version=0.0.4');
    for (const line of [
      'worksync_up 1',
      'worksync_inbox_pending{workspace="acme"} 4',
      'worksync_quarantined_deliveries{workspace="acme"} 2',
      'worksync_outbox_depth{workspace="acme",state="pending"} 7',
      'worksync_held_changes{workspace="acme"} 3',
      'worksync_oldest_pending_seconds{workspace="acme",lane="link"} 259200',
      'worksync_oldest_pending_seconds{workspace="acme",lane="mirror"} 0',
      'worksync_quota_limit{workspace="acme",window="long"} 200',
      'worksync_quota_used{workspace="acme",window="long"} 118',
      'worksync_quota_remaining{workspace="acme",window="long"} 82',
      'worksync_quota_paused_seconds{workspace="acme"} 30',
      'worksync_database_bytes 81920',
      'worksync_workspace_up{workspace="acme"} 1',
      'worksync_problems{workspace="acme",code="changes_held"} 3',
      'worksync_problems{workspace="acme",code="deliveries_quarantined"} 2',
    ])
      expect(answer.body).toContain(`${line}\n`);
  });

  it('says of a workspace that cannot be read so much and no more, also where it told more before', async () => {
    const server = { status: statusWith() };
    const { get } = serve(() => server.status);
    expect((await get('/metrics')).body).toContain('worksync_inbox_pending{workspace="acme"} 0\n');
    const broken = [{ name: 'acme', code: 'database_corrupt', message: 'damaged', hint: 'restore it' }];
    server.status = statusWith({}, { workspaces: [], broken });
    const { body } = await get('/metrics');
    expect(body.split('\n').filter((line) => line.includes('workspace="acme"'))).toEqual([
      'worksync_workspace_up{workspace="acme"} 0',
      'worksync_problems{workspace="acme",code="database_corrupt"} 1',
    ]);
    expect(body).toContain('worksync_up 0\n');
  });
});

describe('who is limited to some workspaces', () => {
  const two = (): Status => {
    const [acme, beta] = [statusWith({ name: 'acme' }), statusWith({ name: 'beta' })];
    const broken = ['acme-two', 'beta-two'].map((name) => ({ name, code: 'config_invalid', message: 'm', hint: 'h' }));
    return { ...acme, broken, workspaces: [...acme.workspaces, ...beta.workspaces] };
  };
  const limited = { role: 'read', workspaces: ['acme', 'acme-two'] } as const;

  it.each(['/status.json', '/metrics'])('sees nothing of the others: %s', async (url) => {
    const all = await serve(two()).get(url);
    expect(all.body).toContain('beta');
    const some = await serve(two(), [], limited).get(url);
    expect(some.body).toContain('acme');
    expect(some.body).not.toContain('beta');
  });
});

it('/status.json holds no secret, even where a stored error text does [A5]', async () => {
  const secret = 'ghp_16C7e42F292c"6912E7710<c838';
  const { get } = serve(everywhere(`Basic ${Buffer.from(`u:${secret}`).toString('base64')} ${secret}`), [secret]);
  const { body } = await get('/status.json');
  expect(body).toContain('[secret]');
  expect(body).not.toMatch(/16C7e42F292c|6912E7710/);
  expect(body).not.toContain(Buffer.from('16C7e42F292c').toString('base64').slice(0, 12));
});
