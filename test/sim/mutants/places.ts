import { readdirSync } from 'node:fs';
import { join } from 'node:path';

export const TOP = join(import.meta.dirname, '../../..');

const ROOMS = ['sync/quota', 'store', 'sync/outbox', 'sync/reconcile', 'sync/intake', 'cluster'];

/** What no run of the simulation comes to, by files, and why. */
export const LEFT_OUT: readonly { readonly files: RegExp; readonly why: string }[] = [
  {
    files: /(?:migrations|tables|count-triggers)\.ts$|\/copy\/|copy-rows|trial\.ts$|daemon-file|data-folder|restore/,
    why: 'the code works on databases of older versions, on backups and on other databases, before a daemon works',
  },
  {
    files:
      /stored-status|health-summary|statistics|explain|find-|listed-|session-|gateway-|refused-|audit-|forget|planned-writes|quota-use|quota-snapshot|forecast/,
    why: 'only commands, pages and the gateway ask',
  },
  { files: /-spans\.ts$/, why: 'traces are made' },
  {
    files: /grants|oauth|hook-watch|redeliver|document|awaited-commits/,
    why: 'it is about what no run configures: documents, OAuth, redelivery, commits',
  },
];

/** The files in which mistakes are made. */
export function places(): string[] {
  const all = ROOMS.flatMap((room) =>
    readdirSync(join(TOP, 'src', room), { recursive: true, encoding: 'utf8' }).map((name) => join('src', room, name)),
  );
  return all.filter((name) => name.endsWith('.ts') && !LEFT_OUT.some(({ files }) => files.test(name))).sort();
}

/** The folder of a file. Files about leases lie in two of them. */
export function roomOf(file: string): string {
  return /store\/leases|store\/clock-era|store\/workspace-numbers/.test(file)
    ? 'cluster'
    : (ROOMS.find((room) => file.startsWith(`src/${room}/`)) as string);
}
