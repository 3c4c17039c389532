import type { Event } from './history.ts';

/** Tasks of which worksync made or removed a link that the backup, which was put back later, does not know of: it is as if people had. */
export function linkedSinceBackup(events: readonly Event[]): ReadonlySet<string> {
  const restores = events.filter((event) => event.what === 'restored');
  const tasks = events.flatMap((event) => {
    if (event.what !== 'arrived' || event.method === 'GET') return [];
    const isSince = restores.some(({ backupAt, at }) => event.at >= backupAt && event.at <= at);
    return isSince ? (/\/tasks\/([^/]+)\/work-items/.exec(event.path)?.slice(1) ?? []) : [];
  });
  return new Set(tasks);
}
