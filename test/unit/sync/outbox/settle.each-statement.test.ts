import { describe, expect, it } from 'vitest';
import { entity as entityName } from '../../../../src/model/change.ts';
import type { SyncError } from '../../../../src/model/errors/sync-error.ts';
import type { Store } from '../../../../src/store/database.ts';
import { blankEntity, type EntityRow, forgetEntity } from '../../../../src/store/entities.ts';
import { removeChange } from '../../../../src/store/outbox-rows.ts';
import { configureLinks } from '../../../../src/store/server-capabilities.ts';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { recover } from '../../../../src/sync/outbox/recovery.ts';
import type { PreparedRequest } from '../../../../src/sync/outbox/request.ts';
import { settle } from '../../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../../src/sync/outbox/settle-failure.ts';
import { differs, waits } from '../../../support/changes.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import {
  ABSENT,
  ABSENT_ROUTE,
  CONTEXT,
  failed,
  LIMITED,
  LINK,
  LOST,
  link,
  newTask,
  REFUSED,
  record,
  removal,
  take,
  wishMeanwhile,
} from '../../../support/in-flight.ts';

describe('whichever statement fails, nothing of it is stored, and whoever settles is told:', () => {
  type Work = (query: Scope, prepared: PreparedRequest) => Promise<unknown>;
  const withFailure =
    (error: SyncError): Work =>
    (query, prepared) =>
      settleFailure(query, prepared, error, { ...CONTEXT, outage: false, atFault: true });
  const answered: Work = (query, prepared) =>
    settle(query, prepared, { tasks: [], pullRequests: [], nextCursor: 'two' }, CONTEXT);
  const nothing = async () => undefined;
  const gone = (entity: string) => (query: Scope) => forgetEntity(query, entity);
  const wished = (row: EntityRow) => (query: Scope) => wishMeanwhile(query, row, 1_500);
  const page = { ...blankEntity(entityName.readPullRequests, 'read') };
  const links = { ...blankEntity(entityName.readLinks('t1'), 'read') };
  const list = { ...blankEntity(entityName.readTasks, 'read') };

  it.each<[what: string, row: EntityRow, meanwhile: (query: Scope) => Promise<unknown>, work: Work]>([
    ['an answer', record, nothing, answered],
    ['an answer to what has changed', record, wished({ ...record, desired: '{"a":2}' }), answered],
    ['an answer to what has gone', link, gone(LINK), answered],
    ['an answer to nothing', link, (query) => removeChange(query, LINK), answered],
    ['an answer with a further page', page, nothing, answered],
    ['an answer with a list', list, nothing, answered],
    ['an answer with a list that was wished again', list, wished(list), answered],
    ['no answer', link, nothing, withFailure(LOST)],
    ['no answer about a task', newTask, nothing, withFailure(LOST)],
    ['a refusal', link, nothing, withFailure(REFUSED)],
    ['what is gone already', removal, nothing, withFailure(ABSENT)],
    ['a refused creation', newTask, nothing, withFailure(failed('refused', 400, 'validation_failed'))],
    ['no list of records', page, nothing, withFailure(ABSENT)],
    ['no links of a task', links, nothing, withFailure(ABSENT_ROUTE)],
    ['having to wait', link, nothing, withFailure(LIMITED)],
    ['one failure too many', { ...link, entity: `${LINK}0` }, nothing, withFailure(ABSENT_ROUTE)],
    ['a start', newTask, wished({ ...newTask }), (query) => recover(query, CONTEXT)],
    ['a start with a link in flight', link, nothing, (query) => recover(query, CONTEXT, 1)],
  ])('%s', async (_what, row, meanwhile, work) => {
    const getReady = async (store: Store) => {
      await configureLinks(store.query, true);
      if (row.kind === 'read') await waits(store.query, row.entity, { kind: 'read' });
      else await differs(store.query, row, { attempts: row.entity === `${LINK}0` ? 4 : 0 });
      const prepared = await take(store.query);
      await meanwhile(store.query);
      return () => store.commit((query) => work(query, prepared));
    };
    expect(await wrongWhereStatementsFail(getReady)).toEqual([]);
  });
});
