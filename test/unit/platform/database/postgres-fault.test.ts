import { expect, it } from 'vitest';
import { asSyncError } from '../../../../src/model/errors/sync-error.ts';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { asSlowRead, postgresFaultOf } from '../../../../src/platform/database/postgres-fault.ts';

const PLACE = 'postgres://db.example.com/worksync, schema worksync';

function failure(code: string, message = 'says the server'): Error {
  return Object.assign(new Error(message), { code });
}

it.each([
  ['53100', 'full'],
  ['53200', 'busy'],
  ['53300', 'away'],
  ['55P03', 'busy'],
  ['40001', 'busy'],
  ['40P01', 'busy'],
  ['57014', 'busy'],
  ['25P03', 'busy'],
  ['57P01', 'away'],
  ['57P03', 'away'],
  ['25006', 'away'],
  ['08006', 'away'],
  ['28P01', 'denied'],
  ['42501', 'denied'],
  ['3D000', 'denied'],
  ['58030', 'failed'],
  ['XX001', 'corrupt'],
  ['ECONNREFUSED', 'away'],
  ['ENOTFOUND', 'away'],
  ['ECONNRESET', 'away'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'away'],
])('%s is %s', (code, kind) => {
  const fault = postgresFaultOf(failure(code), PLACE);
  expect(fault).toMatchObject({ kind, message: `${PLACE}: says the server (${code})` });
  expect(fault?.mayPass).toBe(kind !== 'corrupt');
});

it.each([
  'Query read timeout',
  'Connection terminated due to connection timeout',
  'Connection terminated unexpectedly',
])('the client says: %s', (message) => {
  expect(postgresFaultOf(new Error(message), PLACE)).toMatchObject({ kind: 'away' });
});

it('a pool whose connections are all in use is busy, not away', () => {
  const error = new Error('timeout exceeded when trying to connect');
  expect(postgresFaultOf(error, PLACE)).toMatchObject({ kind: 'busy' });
});

it('a read that has no answer in time is busy, and a lost connection stays away', () => {
  expect(postgresFaultOf(asSlowRead(new Error('Query read timeout')), PLACE)).toMatchObject({ kind: 'busy' });
  expect(postgresFaultOf(asSlowRead(new Error('Connection terminated unexpectedly')), PLACE)?.kind).toBe('away');
});

it.each([['23505'], ['42601'], ['22P02'], ['0A000']])('%s is an error of a statement, and no fault', (code) => {
  expect(postgresFaultOf(failure(code), PLACE)).toBeUndefined();
});

it('a prepared statement of older tables is prepared anew', () => {
  expect(postgresFaultOf(failure('0A000', 'cached plan must not change result type'), PLACE)?.kind).toBe('busy');
});

it('of several addresses all failures are told', () => {
  const error = new AggregateError([new Error('refused by ::1'), new Error('refused by 127.0.0.1')], '');
  const fault = postgresFaultOf(Object.assign(error, { code: 'ECONNREFUSED' }), PLACE);
  expect(fault?.message).toBe(`${PLACE}: refused by ::1; refused by 127.0.0.1 (ECONNREFUSED)`);
});

it('what is a fault already stays the same', () => {
  const fault = new DatabaseFault('full', PLACE, 'full');
  expect(postgresFaultOf(fault, PLACE)).toBe(fault);
});

it.each(['53100', '28P01', '58030', '40P01', 'XX001', '57P01'])('the remedy of %s speaks of no data folder', (code) => {
  const { hint } = asSyncError(postgresFaultOf(failure(code), PLACE));
  expect(hint).toMatch(/PostgreSQL/);
  expect(hint).not.toMatch(/data folder|the file/);
});
