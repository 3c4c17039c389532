import { isDeepStrictEqual } from 'node:util';
import { type Item, pullRequestKey } from '../../../../src/model/item.ts';
import { storable } from '../../../../src/platform/lib/text.ts';
import { desiredLink } from '../../../../src/sync/reconcile/evaluate-links.ts';
import { desiredRecord } from '../../../../src/sync/reconcile/evaluate-record.ts';
import { clampTime } from '../../../../src/sync/reconcile/newest-wins.ts';
import { ROUTES } from '../../../../src/workspace-api/contract.ts';
import type { Victim } from './deliveries.ts';

const STATES = {
  pull_request: new Set(['open', 'closed', 'merged', 'declined', undefined]),
  work_item: new Set(['open', 'in_progress', 'done', undefined]),
};
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;
const NOW = Date.parse('2026-06-01T00:00:00Z');

/** Everything of an item that must not be, whatever a vendor sent; empty where it is sound. */
export function faultsOf({ id, connector, options }: Victim, item: Item): string[] {
  const host = connector.host(options);
  const faults: string[] = [];
  const require = (fact: boolean, what: string) => void (fact || faults.push(what));
  require(item.connector === id && item.host === host, 'names another vendor or host');
  if (item.kind === 'pull_request') {
    require(item.key === pullRequestKey(id, host, item.repoId, item.identifier), 'has a key of something else');
    require(item.mergedAt == null || isTime(item.mergedAt), `was merged at no time: ${item.mergedAt}`);
    const reviews: { readonly at?: string }[] = [...Object.values(item.reviews ?? {}), item.reviewDecision ?? {}];
    require(reviews.every(({ at }) => at === undefined || isTime(at)), 'was reviewed at no time');
    require(item.reverts == null || /^[1-9]\d*$/.test(item.reverts), `reverts nothing: ${item.reverts}`);
  } else
    require(item.key.startsWith(`${id}:${host}:issue:`) && !/\s/.test(item.key), `has no key of its own: ${item.key}`);
  require(STATES[item.kind].has(item.state), `is in no known state: ${item.state}`);
  require(Number.isFinite(new Date(item.updatedAt).getTime()), `changed at no time: ${item.updatedAt}`);
  require(clampTime(item, NOW).updatedAt <= NOW + 5 * 60_000, 'changed in the future');
  require(item.version === undefined || Number.isSafeInteger(item.version), `has no version: ${item.version}`);
  require(item.closedAt == null || isTime(item.closedAt), `was closed at no time: ${item.closedAt}`);
  require(item.createdAt === undefined || isTime(item.createdAt), `was made at no time: ${item.createdAt}`);
  require(item.url === undefined || isAddress(item.url), `leads nowhere: ${item.url}`);
  require(isStorable(item), 'holds what no database keeps');
  require(isSame(JSON.parse(JSON.stringify(item)), item), 'is another one when it is read again');
  faults.push(...refusedBy(item, connector));
  return faults;
}

/** No zero has a sign in JSON. */
function isSame(read: Item, item: Item): boolean {
  return isDeepStrictEqual(read, item.version === undefined ? item : { ...item, version: item.version + 0 });
}

function isTime(text: string): boolean {
  return INSTANT.test(text) && Number.isFinite(Date.parse(text));
}

/** One that a page may show as a link. */
function isAddress(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}

/** Also the names of fields, where those come from the vendor. */
function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return storable(value) === value;
  if (typeof value !== 'object' || value === null) return true;
  return Object.entries(value).every(([name, inside]) => storable(name) === name && isStorable(inside));
}

/** A branch that has a longer name than the workspace takes is refused there, and people are told; nothing else may be. */
const TOO_LONG = /^(?:head|base)Branch$/;

function refusedBy(item: Item, vendor: Victim['connector']): string[] {
  const bodies = [
    { route: ROUTES.addWorkItem, body: desiredLink(item) },
    { route: ROUTES.createPullRequest, body: item.kind === 'pull_request' ? desiredRecord(item, vendor) : undefined },
  ];
  return bodies.flatMap(({ route, body }) => {
    if (body === undefined || (vendor.capabilities.pullRequests !== true && route === ROUTES.createPullRequest))
      return [];
    const { error } = route.body.safeParse(body);
    const refused = (error?.issues ?? []).filter(({ path }) => !TOO_LONG.test(path.join('.')));
    return refused.map(({ path, message }) => `is refused by the workspace: ${path.join('.')}: ${message}`);
  });
}
