import { SyncError } from '../../model/errors.ts';
import { displayNameOf, type ItemKey, type PullRequest } from '../../model/item.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { existingItems, findItem, itemsAtUrl, itemsByDisplayName, readFields } from '../../store/items/items.ts';
import { anyTaskId, highestTaskKeys } from '../../store/tasks/stored-tasks.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { ActiveConnection } from '../../sync/workspace-context.ts';
import { cachedTasks } from '../items/human-names.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import { type PullRequestQuery, repositoryOf } from './ci-job.ts';
import { explainLinks } from './links.ts';

export interface LinkedTask {
  /** The id where it has no key. */
  readonly key: string;
  /** Null if the workspace has not reported it yet. */
  readonly title: string | null;
  readonly status: string | null;
  /** `waiting`: the link is decided, and waits for its turn to be sent. */
  readonly state: 'linked' | 'waiting';
}

/** A name in its texts that made no link. */
export interface UnlinkedName {
  readonly text: string;
  readonly place: string | null;
  readonly why: string;
}

export interface PullRequestTasks {
  /** Null where worksync does not know it. */
  readonly pullRequest: {
    readonly name: string;
    readonly url: string | null;
    readonly title: string | null;
    readonly connection: string;
  } | null;
  readonly tasks: readonly LinkedTask[];
  readonly notLinked: readonly UnlinkedName[];
  /** Where it is unknown: connections that it may come from yet. */
  readonly expectedFrom: readonly string[];
  /** Key of one task of the workspace, or its id where tasks have no keys. */
  readonly example: string | null;
}

/** The longest list that people read. */
const MOST_SHOWN = 50;

/**
 * The tasks of a pull request, from the database alone. Throws `usage` where several pull requests have the name.
 */
export async function pullRequestTasks(
  partition: OpenWorkspace,
  asked: PullRequestQuery,
  clock: Clock,
): Promise<PullRequestTasks> {
  const { query } = partition.store;
  const [example = (await anyTaskId(query)) ?? null] = await highestTaskKeys(query);
  const found = await findPullRequest(query, asked);
  if (!found) return { ...NOTHING, example, expectedFrom: expectedFrom(partition.connections, asked) };
  const { items } = await explainLinks(partition, { target: found.key }, clock);
  const links = items.flatMap((item) => item.links).slice(0, MOST_SHOWN);
  const others = items.flatMap((item) => item.others).slice(0, MOST_SHOWN);
  const tasks = await cachedTasks(query, links);
  const linked = links.flatMap((link): LinkedTask[] => {
    const state = stateOf(link);
    const { title = null, status = null } = tasks.get(link.taskId) ?? {};
    return state === undefined ? [] : [{ key: link.task, title, status, state }];
  });
  const unlinked = links.flatMap((link): UnlinkedName[] => {
    const why = WHY_NOT[link.state];
    const { text = link.task, place = null } = link.reason ?? {};
    return stateOf(link) !== undefined || why === undefined ? [] : [{ text, place, why }];
  });
  const unknown = others.map(({ text, place, why }) => ({ text, place, why }));
  return { pullRequest: found.shown, tasks: linked, notLinked: [...unlinked, ...unknown], expectedFrom: [], example };
}

const NOTHING = { pullRequest: null, tasks: [], notLinked: [] } as const;

type Link = Awaited<ReturnType<typeof explainLinks>>['items'][number]['links'][number];

/** A change without a reason takes a link away. */
function stateOf({ state, reason }: Link): LinkedTask['state'] | undefined {
  if (state === 'linked' || state === 'manual') return 'linked';
  const isUnderWay = state === 'waiting' || state === 'sending' || state === 'unknown';
  return isUnderWay && reason !== null ? 'waiting' : undefined;
}

const WHY_NOT: Readonly<Partial<Record<Link['state'], string>>> = {
  removed: 'a person removed the link, so worksync does not add it again; "worksync links add" does',
  held: 'the link needs approval: see "worksync held"',
};

interface Found {
  readonly key: ItemKey;
  readonly shown: NonNullable<PullRequestTasks['pullRequest']>;
}

async function findPullRequest(query: Scope, { targets, provider }: PullRequestQuery): Promise<Found | undefined> {
  for (const target of targets) {
    const found: Found[] = [];
    for (const key of await keysOf(query, target)) {
      const row = await findItem(query, key);
      const { item } = row ? readFields(row) : {};
      if (!row || item?.kind !== 'pull_request' || (provider !== undefined && item.connector !== provider)) continue;
      found.push({ key, shown: { ...shownOf(item), connection: row.connection } });
    }
    const [first, another] = found;
    if (another)
      throw new SyncError('usage', `several pull requests are called ${target}`, {
        hint: `Name the one by its address: ${found.map(({ shown }) => shown.url).join(' or ')}`,
      });
    if (first) return first;
  }
  return undefined;
}

async function keysOf(query: Scope, target: string): Promise<readonly ItemKey[]> {
  const exact = await existingItems(query, [target]);
  if (exact.length > 0) return exact;
  return /^https?:\/\//i.test(target) ? itemsAtUrl(query, target) : itemsByDisplayName(query, target);
}

function shownOf(item: PullRequest) {
  return { name: displayNameOf(item) ?? item.key, url: item.url ?? null, title: item.title ?? null };
}

/** Connections to the host and provider of the pull request that may cover its repository. */
function expectedFrom(connections: readonly ActiveConnection[], { targets, provider }: PullRequestQuery): string[] {
  const repository = targets.map(repositoryOf).find((name) => name !== undefined);
  const hosts = targets.flatMap((target) => URL.parse(target)?.hostname || []);
  return connections
    .filter(({ connector }) => connector.capabilities.pullRequests === true)
    .filter(({ connector }) => provider === undefined || connector.id === provider)
    .filter(({ connector, options }) => hosts.length === 0 || hosts.includes(connector.host(options)))
    .filter((connection) => repository === undefined || mayCover(connection, repository, targets))
    .map(({ name }) => name);
}

/**
 * Whether a connection may cover a repository. A renamed one is covered through its bound id or former name.
 *
 * @param targets keys of pull requests in the repository; they contain its id
 */
export function mayCover(
  { connector, options, names }: Pick<ActiveConnection, 'connector' | 'options' | 'names'>,
  repository: string,
  targets: readonly string[] = [],
): boolean {
  const isBound = names
    ?.bindings()
    .some(
      ({ id, called }) =>
        called.toLowerCase() === repository.toLowerCase() || targets.some((target) => target.includes(`:${id}:`)),
    );
  return isBound === true || connector.mayCover?.(repository, options) !== false;
}
