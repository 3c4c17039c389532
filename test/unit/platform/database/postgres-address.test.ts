import { expect, it } from 'vitest';
import { checkTlsFiles, isPostgres, readAddress } from '../../../../src/platform/database/postgres-address.ts';

it('names a schema and connections, and passes the rest on', () => {
  const address = readAddress(
    'postgres://sync:s%40fe@db.example.com:6543/work?schema=mine&connections=9&sslmode=verify-full&options=-c%20geqo%3Doff',
  );
  expect(address).toEqual({
    place: 'postgres://sync@db.example.com:6543/work, schema mine',
    connection: { connectionString: 'postgres://sync:s%40fe@db.example.com:6543/work?sslmode=verify-full' },
    options: '-c geqo=off',
    schema: 'mine',
    connections: 9,
  });
});

it('has a schema of its own unless told', () => {
  expect(readAddress('postgresql://db/work')).toMatchObject({ schema: 'worksync', connections: 4 });
});

it('refuses a certificate that is no regular file, before the client waits for it', () => {
  const check = (path: string) => checkTlsFiles(readAddress(`postgres://db/work?sslrootcert=${path}`));
  expect(() => check('/dev/zero')).toThrow('sslrootcert: /dev/zero is a device, not a regular file');
  expect(() => check(import.meta.filename)).not.toThrow();
});

it.each([
  ['postgres://', 'no valid URL'],
  ['postgres://db/work?schema=Mine', 'schema'],
  ['postgres://db/work?schema=a"b', 'schema'],
  [`postgres://db/work?schema=${'a'.repeat(64)}`, 'schema'],
  ['postgres://db/work?connections=0', 'connections'],
  ['postgres://db/work?connections=51', 'connections'],
  ['postgres://db/work?connections=many', 'connections'],
  ['postgres://u:%zz-secret@db/work', 'malformed'],
])('%s is refused, and no password told', (text, reason) => {
  expect(() => readAddress(text)).toThrow(new RegExp(reason, 'i'));
  expect(() => readAddress(text)).not.toThrow('secret');
});

it.each([
  ['postgres://db', true],
  ['postgresql://db', true],
  ['/var/lib/postgres', false],
  ['data/postgres:', false],
  [':memory:', false],
])('%s names a server: %s', (place, is) => {
  expect(isPostgres(place)).toBe(is);
});
