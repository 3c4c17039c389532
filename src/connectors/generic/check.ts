import type { Finding } from '../connector.ts';
import { findingsOf } from '../kit/finding.ts';
import type { Rest } from '../kit/rest.ts';
import { pollPage } from '../kit/walk.ts';
import type { Options } from './options.ts';
import { sweepItems, UNIT, walkOf } from './poll.ts';

/** Proves that the feed can be read; reads only. */
export async function checkGeneric(
  feed: Rest | undefined,
  { system }: Options,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  if (!feed) return [withoutFeed];
  const startedAt = new Date(0).toISOString();
  return [
    ...(await proved('feed', 'items can be read', () => pollPage(walkOf(feed), { unit: UNIT, startedAt }, signal))),
    ...(await proved('ids', 'ids can be read', () => sweepItems(feed, system, undefined, signal))),
  ];
}

const withoutFeed: Finding = {
  level: 'warning',
  subject: 'feed',
  message: 'none: worksync never sees what no webhook brings',
  hint: 'Offer a feed as the README of this connector describes it, and set feedUrl.',
};

function proved(subject: string, message: string, read: () => Promise<unknown>) {
  return findingsOf(subject, async () => {
    await read();
    return [{ level: 'ok', subject, message }];
  });
}
