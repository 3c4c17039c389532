import type { Connection, Connector } from '../../connectors/connector.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import { afterLookup, afterReport, type Binding, type NamedUnit } from '../../model/names.ts';
import {
  loadNames,
  restartUnits,
  type StoredName,
  saveName,
  storedUnits,
} from '../../store/connections/scope-names.ts';
import type { StoreContext } from '../../store/store-context.ts';
import type { Store } from '../../store/workspace-scope.ts';
import { affectsAllUnits } from './pauses.ts';

/**
 * The bindings of the names in the scope of one connection, in memory and in the store. `model/names.ts` has the rule.
 */
export type NameBindings = Awaited<ReturnType<typeof openNameBindings>>;

/** How long the vendor's answer for a name is valid, without and with a reason for doubt, milliseconds. */
const VALID_FOR = 24 * 60 * 60_000;
const DOUBTED_VALID_FOR = 15 * 60_000;

/**
 * @param entries the configured names in the connection's scope
 * @param unitOf returns the connector's unit for the id of a repository, project or team
 */
export async function openNameBindings(
  context: StoreContext,
  { connection, entries, unitOf }: { connection: string; entries: readonly string[]; unitOf?: Connector['unitOf'] },
) {
  const { store, clock } = context;
  const logger = context.logger.child({ connection });
  const spelling = new Map(entries.map((entry) => [entry.toLowerCase(), entry]));
  const names = [...spelling.keys()];
  const stored = await store.commit((transaction) => loadNames(transaction, connection, names));
  const cache = createBindingCache({ ...context, logger }, connection, stored);
  let version = 0;
  /** Names in doubt. A name stays in doubt until the vendor has answered for it. */
  const doubted = new Set<string>();
  let isAnyInScope = false;
  let unmatchedUnit: NamedUnit | undefined;

  function recheckSoon(): void {
    for (const entry of names) doubted.add(entry);
  }

  function isExpired(entry: string): boolean {
    const askedAt = cache.get(entry)?.askedAt ?? null;
    if (askedAt === null) return true;
    // A time in the future means that the clock was set back.
    const age = clock.now() - askedAt;
    return age < 0 || age >= (doubted.has(entry) ? DOUBTED_VALID_FOR : VALID_FOR);
  }

  return {
    idOf: (entry: string) => cache.get(entry.toLowerCase())?.binding.id,
    /** Returns the bindings; each entry is a configured name in lower case. */
    bindings: cache.all,
    /**
     * Returns a number that changes with each rebind. A page that was requested under another version must not be stored.
     */
    version: () => version,
    report(unit: NamedUnit) {
      for (const entry of names) {
        const current = cache.get(entry);
        const binding = afterReport(entry, current?.binding, unit);
        if (!binding || binding === current?.binding) continue;
        if (binding.elsewhere !== current?.binding.elsewhere) recheckSoon();
        cache.save(entry, binding, current?.askedAt ?? null);
      }
    },
    reportScope({ id, name }: NamedUnit, isInScope: boolean) {
      isAnyInScope ||= isInScope;
      unmatchedUnit = { id, name };
    },
    /**
     * Returns the last thing that a delivery named, if none of the names was ever found and nothing in the scope was named
     * since the start. It may be the one that the configuration means, under a new name.
     */
    unmatchedUnit: () => (isAnyInScope || cache.all().length > 0 ? undefined : unmatchedUnit),
    addressOf: (unit: string) => addressOf(unit, (name) => cache.get(name.toLowerCase())?.binding, unitOf),
    /**
     * Asks the vendor for the ids of the names whose last answer is too old. Throws only `rate_limited`, because then no
     * other request may follow. Polls report all other failures.
     */
    async refresh(vendor: Pick<Connection, 'identify'>, signal: AbortSignal) {
      if (!vendor.identify) return;
      for (const entry of names.filter(isExpired)) {
        try {
          const found = await identify(vendor, spelling.get(entry) ?? entry, signal);
          const binding = afterLookup(entry, cache.get(entry)?.binding, found);
          if (binding) cache.save(entry, binding, clock.now());
          doubted.delete(entry);
        } catch (thrown) {
          const error = asSyncError(thrown);
          logger.debug({ name: entry, error }, 'a name could not be resolved');
          if (error.code === 'rate_limited') throw error;
          if (error.verdict === 'retry' || affectsAllUnits(error)) return;
        }
      }
      await cache.settled();
    },
    /** Lets answers expire sooner, because a name was not found or a delivery contradicts a binding. */
    recheckSoon,
    /**
     * Binds the names to their present ids. @returns the new bindings
     *
     * @throws the vendor's refusals of names, together, after the other names were bound
     */
    async rebind(vendor: Pick<Connection, 'identify'>, signal: AbortSignal) {
      const bound: Binding[] = [];
      const failures: { readonly entry: string; readonly error: SyncError }[] = [];
      for (const binding of cache.rebound()) {
        const { entry, elsewhere = '' } = binding;
        try {
          // If the vendor cannot resolve names, the id is the one that a delivery gave.
          const found = vendor.identify
            ? await identify(vendor, spelling.get(entry) ?? entry, signal)
            : { id: elsewhere, name: entry };
          if (found && found.id !== binding.id) bound.push({ entry, id: found.id, called: found.name });
          else cache.save(entry, afterLookup(entry, binding, found) ?? binding, clock.now());
        } catch (thrown) {
          const error = asSyncError(thrown);
          failures.push({ entry, error });
          if (error.verdict === 'retry' || affectsAllUnits(error)) break;
        }
      }
      if (bound.length > 0) {
        await cache.settled();
        version++;
        await cache.saveRebound(bound, clock.now());
        logger.info({ bound }, 'names were bound again');
      }
      const [first] = failures;
      if (first !== undefined) throw together(first.error, failures, bound);
      return bound;
    },
    /** Resolves when all bindings are stored. */
    settled: cache.settled,
  };
}

interface CachedBinding {
  readonly binding: Binding;
  /** When the vendor last answered, epoch milliseconds. */
  readonly askedAt: number | null;
}

/** The bindings in memory. Reports each change by the log and by the gauge of rebound names. */
function createBindingCache({ store, meter, logger }: StoreContext, connection: string, stored: readonly StoredName[]) {
  const cache = new Map(stored.map((row) => [row.entry, cachedBindingOf(row)]));
  let writing: Promise<void> = Promise.resolve();

  function all(): readonly Binding[] {
    return [...cache.values()].map(({ binding }) => binding);
  }

  /** Returns the bindings whose name leads to another id. */
  function rebound(): readonly Binding[] {
    return all().filter(({ elsewhere }) => elsewhere !== undefined);
  }

  function reportRebound(): void {
    meter.gauge('scope_rebound', rebound().length, { connection });
  }

  function reportChange(previous: Binding | undefined, { entry, id, called, elsewhere }: Binding): void {
    reportRebound();
    if (elsewhere !== undefined && elsewhere !== previous?.elsewhere) {
      const code = 'scope_rebound';
      logger.warn({ code, name: entry, id, other: elsewhere }, 'a name leads to another target than before');
    } else if (previous && previous.called !== called)
      logger.info({ name: entry, id, called }, 'a repository, project or team was renamed');
  }

  reportRebound();
  return {
    get: (entry: string) => cache.get(entry),
    all,
    rebound,
    /** Changes a binding in memory at once, so that the next delivery follows it, and in the store soon. */
    save(entry: string, binding: Binding, askedAt: number | null) {
      const previous = cache.get(entry)?.binding;
      cache.set(entry, { binding, askedAt });
      if (previous !== binding) reportChange(previous, binding);
      writing = writing.then(async () => {
        try {
          await store.commit((transaction) => saveName(transaction, connection, rowOf(binding, askedAt)));
        } catch (error) {
          logger.error({ error: asSyncError(error) }, 'the target of a name could not be stored');
        }
      });
    },
    /** Stores bindings to other ids, then changes them in memory. */
    async saveRebound(bound: readonly Binding[], now: number) {
      await storeRebound(store, connection, bound, now);
      for (const binding of bound) cache.set(binding.entry, { binding, askedAt: now });
      reportRebound();
    },
    settled: () => writing,
  };
}

/** Replaces the name in a unit, such as `issues:acme/app`, by the address of its id. */
function addressOf(
  unit: string,
  bindingOf: (name: string) => Binding | undefined,
  unitOf: Connector['unitOf'],
): string {
  const [, list = '', name = unit] = /^([a-z]+:)?(.*)$/s.exec(unit) ?? [];
  const binding = bindingOf(name);
  if (!binding || binding.entry === binding.id.toLowerCase()) return unit;
  return list + (unitOf?.({ id: binding.id, name: binding.called }) ?? binding.id);
}

/**
 * Stores new bindings. In the same commit, the units of the names restart, so that they are read from the beginning.
 */
async function storeRebound(store: Store, connection: string, bound: readonly Binding[], now: number): Promise<void> {
  const entries = new Set(bound.map(({ entry }) => entry));
  await store.commit(async (transaction) => {
    const stored = await storedUnits(transaction, connection);
    const units = stored.filter((unit) => entries.has(unit.replace(/^[a-z]+:/, '').toLowerCase()));
    await restartUnits(transaction, connection, units, { now, reason: 'scope_rebound: the name was bound again' });
    for (const binding of bound) await saveName(transaction, connection, rowOf(binding, now));
  });
}

/** Returns an error with the code and remedy of the first failure, which names all of them and what was done. */
function together(
  first: SyncError,
  failures: readonly { readonly entry: string; readonly error: SyncError }[],
  bound: readonly Binding[],
): SyncError {
  const { code, hint, status, retryAfter } = first;
  const refused = failures.map(({ entry, error }) => `${entry}: ${error.message}`);
  const done = bound.map(({ entry, called, id }) => `${entry} now means ${called} (id ${id})`);
  return new SyncError(code, [...refused, ...done].join('; '), {
    hint,
    cause: first,
    ...(status !== undefined && { status }),
    ...(retryAfter !== undefined && { retryAfter }),
  });
}

/** Returns undefined if nothing has the name. */
async function identify(
  vendor: Pick<Connection, 'identify'>,
  name: string,
  signal: AbortSignal,
): Promise<NamedUnit | undefined> {
  if (!vendor.identify) throw new SyncError('refused', 'this connection cannot resolve names');
  try {
    return await vendor.identify(name, signal);
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found') throw error;
    return undefined;
  }
}

function cachedBindingOf({ entry, id, called, elsewhere, askedAt }: StoredName): CachedBinding {
  return { binding: { entry, id, called, ...(elsewhere === null ? {} : { elsewhere }) }, askedAt };
}

function rowOf({ entry, id, called, elsewhere }: Binding, askedAt: number | null): StoredName {
  return { entry, id, called, elsewhere: elsewhere ?? null, askedAt };
}

/** Wraps a connection for the stages: they use names for its units, and the vendor gets ids. */
export function addressById(connection: Connection, names: NameBindings): Connection {
  const { history, sweep } = connection;
  return {
    ...connection,
    async units(signal) {
      const addresses = new Set<string>();
      const units = await connection.units(signal);
      // A configured name that was renamed may be listed a second time by its id.
      return units.filter((unit) => {
        const address = names.addressOf(unit);
        return !addresses.has(address) && addresses.add(address);
      });
    },
    poll: (position, signal) => connection.poll({ ...position, unit: names.addressOf(position.unit) }, signal),
    ...(history && {
      history: (position, signal) => history({ ...position, unit: names.addressOf(position.unit) }, signal),
    }),
    ...(sweep && { sweep: (unit, page, signal) => sweep(names.addressOf(unit), page, signal) }),
  };
}
