import { readdirSync } from 'node:fs';
import { join } from 'node:path';

export const TOP = join(import.meta.dirname, '../../..');

const ROOMS = ['sync/quota', 'store', 'sync/outbox', 'sync/reconcile', 'sync/intake', 'cluster'];

/** Files that no run of the simulation comes to. */
const LEFT_OUT: readonly RegExp[] = [
  // They work on databases of older versions, on backups and on other databases, before a daemon works.
  /(?:migrations|tables|count-triggers)\.ts$|\/copy\/|copy-rows|trial\.ts$|daemon-file|data-folder|restore/,
  // Only commands, pages and the gateway ask them.
  /stored-status|health-summary|statistics|explain|find-|listed-|session-|gateway-|refused-|audit-|forget|planned-writes|quota-use|quota-snapshot|forecast/,
  // They make traces.
  /-spans\.ts$/,
  // No run configures documents, OAuth, redelivery and commits.
  /grants|oauth|hook-watch|redeliver|document|awaited-commits/,
];

/** The files in which mistakes are made. */
export function places(): string[] {
  const all = ROOMS.flatMap((room) =>
    readdirSync(join(TOP, 'src', room), { recursive: true, encoding: 'utf8' }).map((name) => join('src', room, name)),
  );
  return all.filter((name) => name.endsWith('.ts') && !LEFT_OUT.some((files) => files.test(name))).sort();
}

/** The folder of a file. Files about leases lie in two of them. */
export function roomOf(file: string): string {
  return /store\/leases|store\/clock-era|store\/workspace-numbers/.test(file)
    ? 'cluster'
    : (ROOMS.find((room) => file.startsWith(`src/${room}/`)) as string);
}
