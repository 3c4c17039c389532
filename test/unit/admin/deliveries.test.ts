import { beforeAll, describe, expect, it } from 'vitest';
import { replay } from '../../../src/admin/deliveries.ts';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';

const STATES = ['applied', 'applied', 'ignored', 'pending', 'quarantined'] as const;

describe('the preview of a replay', () => {
  const statements: string[] = [];
  let store: OpenedStore;
  let workspace: OpenWorkspace;

  beforeAll(async () => {
    store = await openStore({ file: ':memory:', onStatement: (sql) => statements.push(sql) });
    const connections = [{ name: 'github' }, { name: 'tickets' }];
    workspace = { store, connections, wakeReconcile() {} } as unknown as OpenWorkspace;
    const rows = STATES.map((state, at) => ({
      ...{ connection: 'github', delivery_key: `d-${at}`, source: 'webhook' as const, event: 'pull_request', state },
      ...{ body: at === 0 ? null : Buffer.from('{}'), received_at: at },
    }));
    await store.query.insertInto('inbox').values(rows).execute();
    return () => store.close();
  });

  async function preview(wish: Partial<Parameters<typeof replay>[1]>) {
    statements.length = 0;
    return replay(workspace, { ...wish, preview: true });
  }

  it('counts what would be judged again, and what would not and why', async () => {
    const none = { replayed: 0, quarantined: 0, pending: 0, purged: 0, own: 0, more: false };
    expect(await preview({})).toEqual({ ...none, replayed: 3, quarantined: 1, pending: 1, purged: 1 });
    expect(await preview({ state: 'applied' })).toEqual({ ...none, replayed: 1, purged: 1 });
    expect(await preview({ state: 'pending' })).toEqual({ ...none, pending: 1 });
    expect(await preview({ state: 'quarantined', connection: 'github' })).toEqual({
      ...none,
      ...{ replayed: 1, quarantined: 1 },
    });
    expect(await preview({ state: 'superseded' })).toEqual(none);
  });

  it.each([{ connection: 'tickets' }, { state: 'pending' }, { state: 'quarantined' }] as const)(
    'goes through no other deliveries: %o',
    async (wish) => {
      await preview(wish);
      expect(statements.length).toBeGreaterThan(0);
      for (const sql of statements) expect(sql).not.toMatch(/order by "received_at"/);
    },
  );
});
