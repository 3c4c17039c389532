import { describe, expect, it } from 'vitest';
import { conditionOf, judgeCondition } from '../../../src/admin/wait.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import { EMPTY, statusWith } from '../../support/harness/web.ts';

/** Nothing is to come, unless the parts say so. */
const calm = (parts: Parameters<typeof statusWith>[0] = {}, rest: Parameters<typeof statusWith>[1] = {}) =>
  statusWith({ connections: [], ...parts }, rest);

const NAME = calm().workspaces[0]!.name;
const SYNCED = { kind: 'synced' } as const;
const changes = (byState: Partial<typeof EMPTY.changes.byState>) => ({
  stored: { ...EMPTY, changes: { ...EMPTY.changes, byState: { ...EMPTY.changes.byState, ...byState } } },
});
const nothing = { waitsFor: [], needsPerson: [] };

describe('synced', () => {
  it('is met where nothing waits', () => {
    expect(judgeCondition(SYNCED, calm())).toEqual(nothing);
  });

  it('names what is still to come', () => {
    const stored = { ...changes({ pending: 2, sending: 1 }).stored, deliveries: { ...EMPTY.deliveries, pending: 1 } };
    const poll = {
      name: 'jira',
      connector: 'jira',
      mirror: 'auto' as const,
      webhookPath: null,
      schedule: 'every 5 min',
      hooks: null,
      names: [],
    };
    const { waitsFor } = judgeCondition(SYNCED, calm({ stored, connections: [poll] }));
    expect(waitsFor).toEqual([`${NAME}: 1 delivery, 3 changes, the first poll of jira`]);
  });

  it('says what no waiting brings about: changes that need approval, and a workspace that is halted', () => {
    expect(judgeCondition(SYNCED, calm(changes({ held: 94 })))).toEqual({
      waitsFor: [],
      needsPerson: [`${NAME}: 94 changes held; list them with "worksync held"`],
    });
    const halted = calm({
      ...changes({ pending: 5 }),
      halt: new SyncError('unauthorized', 'the key is revoked'),
    });
    expect(judgeCondition(SYNCED, halted)).toMatchObject({
      waitsFor: [],
      needsPerson: [expect.stringContaining('unauthorized: the key is revoked')],
    });
  });

  it('is about the named workspaces only', () => {
    const broken = [{ name: 'other', code: 'config_invalid', message: 'm', hint: 'Correct it.' }];
    const status = calm({}, { broken });
    expect(judgeCondition(SYNCED, status).needsPerson).toEqual(['other is not open: config_invalid. Correct it.']);
    expect(judgeCondition(SYNCED, status, [NAME])).toEqual(nothing);
  });
});

it('ready waits for the components that are not', () => {
  const status = calm({}, { ready: false, components: { database: 'disk_full', server: 'ok' } });
  const { waitsFor } = judgeCondition({ kind: 'ready' }, status);
  expect(waitsFor).toEqual(['the daemon to be ready, database: disk_full']);
});

it('reads conditions, and suggests a workspace for what is nearly one', () => {
  expect(['ready', 'synced', 'workspace=a', 'workspace=', 'x'].map(conditionOf)).toEqual([
    { kind: 'ready' },
    { kind: 'synced' },
    { kind: 'workspace', name: 'a' },
    undefined,
    undefined,
  ]);
  const misspelt = () => judgeCondition({ kind: 'workspace', name: `${NAME}x` }, calm());
  expect(misspelt).toThrow(`(did you mean "${NAME}"?)`);
  expect(judgeCondition({ kind: 'workspace', name: NAME }, calm())).toEqual(nothing);
});

describe('a workspace that another replica works on', () => {
  const status = { ...calm(), elsewhere: [{ name: 'theirs', address: 'http://b:8080' }] };

  it('which told nothing of it, is waited for', () => {
    const waitsFor = ['the replica that works on theirs to answer'];
    expect(judgeCondition(SYNCED, status)).toEqual({ waitsFor, needsPerson: [] });
    expect(judgeCondition({ kind: 'workspace', name: 'theirs' }, status)).toEqual({ waitsFor, needsPerson: [] });
    expect(judgeCondition({ kind: 'workspace', name: NAME }, status)).toEqual(nothing);
  });
});
