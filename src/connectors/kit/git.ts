import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { Item } from '../../model/item.ts';
import type { Connection, ConnectionDeps, Connector } from '../connector.ts';
import { present } from './fields.ts';
import { isRefusedList } from './followed.ts';
import { checkGit } from './git-check.ts';
import { createTranslate, referenceTo } from './git-translate.ts';
import type { GitVendor, Kind, Unjudged } from './git-vendor.ts';
import { createGitProvider } from './git-writes.ts';
import { writeJson } from './json.ts';
import { readLocator } from './locator.ts';
import { rowNames } from './row-names.ts';
import { namedIn } from './scope.ts';
import { unlessOff } from './switched-off.ts';
import { emptiness, historyPage, pollPage, type Walk } from './walk.ts';

/** The connector of a git provider: what all of them do alike, from what each says of itself. */
export function gitConnector<Options extends { readonly commits: boolean }, Locator extends Unjudged>(
  vendor: GitVendor<Options, Locator>,
): Connector<Options> {
  return {
    ...vendor,
    capabilities: { ...vendor.capabilities, pullRequests: true },
    fetchesCommits: ({ commits }) => commits,
    translate: createTranslate(vendor),
    reference: (item) => referenceTo(kindOf(vendor, item.kind), item),
    namesIn: (given) => namedIn(vendor.scopeOf(given)),
    git: (deps) => createGitProvider(vendor.writes, deps),
    connect: (given, deps) => connect(vendor, given, deps),
  };
}

function connect<Options extends { readonly commits: boolean }, Locator extends Unjudged>(
  vendor: GitVendor<Options, Locator>,
  options: Options,
  { clock, ...deps }: ConnectionDeps,
): Connection {
  const source = vendor.connect(options, { clock, ...deps });

  /** One list of one place. */
  const readUnit = (unit: string) =>
    unit.startsWith(ISSUES)
      ? { kind: kindOf(vendor, 'work_item'), place: unit.slice(ISSUES.length) }
      : { kind: kindOf(vendor, 'pull_request'), place: unit };

  const list: typeof source.list = async (wanted, signal) => {
    source.requireReadable?.(wanted.unit);
    const offOf = async () => source.switchedOff?.(wanted.noun, wanted.unit, signal);
    return unlessOff(() => source.list(wanted, signal), offOf);
  };

  const walkOf = (unit: string): Walk => {
    const { kind, place } = readUnit(unit);
    const { noun } = kind;
    const wanted = { noun, unit: place };
    return {
      ...kind,
      list: (given, signal) => list({ ...given, ...wanted }, signal),
      async write(found, signal) {
        const page = source.pageOf ? await source.pageOf(found, wanted, signal) : found;
        return { event: rowNames(noun).list, body: writeJson(page) };
      },
    };
  };

  return {
    async units(signal) {
      const places = await source.places(signal);
      const isTwice = (place: string) => vendor.withIssues?.(options) && !isRefusedList(place);
      return places.flatMap((place) => (isTwice(place) ? [place, ISSUES + place] : place));
    },
    poll: (position, signal) => pollPage(walkOf(position.unit), position, signal),
    identify: (name, signal) => source.identify(name, signal),
    /** Calls an item gone only where this credential sees its repository now: a lost right looks the same as a lost item. */
    async fetch(wanted, signal, known = {}) {
      const { noun, locator: shape, rowOfGone } = kindOf(vendor, wanted.kind);
      const locator = readLocator(shape, wanted);
      const names = rowNames(noun);
      const looked = await source.item(noun, locator, known, signal);
      if (looked.found !== undefined)
        return { event: locator.isFollowed ? names.judged : names.item, body: writeJson(looked.found) };
      if (!looked.isGone) await source.prove(noun, locator, signal);
      if (locator.isFollowed) return { event: names.missing, body: writeJson({}) };
      const seenAt = new Date(clock.now()).toISOString();
      return { event: names.gone, body: writeJson(rowOfGone(locator, seenAt)) };
    },
    check: (signal) => checkGit(source, signal),
    history: (position, signal) => historyPage(walkOf(position.unit), position, signal),
    async sweep(unit, page, signal) {
      const { kind, place } = readUnit(unit);
      const wanted = { noun: kind.noun, unit: place };
      const selection = { items: 'ids', containerId: place } as const;
      const listed = await list({ ...wanted, selection, page, use: 'background' }, signal);
      const swept = await source.swept(listed.found, wanted, signal);
      return { ...swept, ...present({ next: listed.next }), ...emptiness(listed) };
    },
    hooks: source.hooks,
    ...present({ redeliver: source.redeliver }),
    comment: (wanted, comment, signal) => {
      const { noun, locator } = kindOf(vendor, wanted.kind);
      return source.comment(noun, readLocator(locator, wanted), comment, signal);
    },
    status: {
      right: source.status.right,
      async write(wanted, status, signal) {
        const { locator } = kindOf(vendor, wanted.kind);
        try {
          await source.status.write(readLocator(locator, wanted), status, signal);
        } catch (thrown) {
          throw withRight(asSyncError(thrown), source.status.right);
        }
      },
    },
    async close(wanted, signal) {
      if (wanted.kind === 'pull_request' || !source.closeIssue) throw neverClosed(wanted.key);
      const { locator } = kindOf(vendor, wanted.kind);
      await source.closeIssue(readLocator(locator, wanted), wanted.key, signal);
    },
  };
}

function kindOf<Options, Locator>({ kinds }: { kinds: readonly Kind<Options, Locator>[] }, kind: Item['kind']) {
  return kinds.find((each) => each.kind === kind) ?? (kinds[0] as Kind<Options, Locator>);
}

/** What the name of a unit begins with, where it is the list of issues of a place. */
const ISSUES = 'issues:';

/** Vendors hide what a credential may not write: both answers mean that it lacks the right, and nobody asks again. */
function withRight(error: SyncError, right: string): SyncError {
  if (error.code !== 'forbidden' && error.code !== 'not_found') return error;
  const hint = `The credential needs ${right}. Otherwise switch writeBack.status off.`;
  return new SyncError('refused', `the commit status was refused: ${error.message}`, { cause: error, hint });
}

function neverClosed(key: string): SyncError {
  return new SyncError('refused', `${key} is a pull request: people merge or close those`, {
    errorCode: 'unsupported_field',
    hint: 'Switch closing off for this connection, or let it follow issues only.',
  });
}
