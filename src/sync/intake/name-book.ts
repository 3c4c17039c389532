import type { Connection, Connector } from '../../connectors/connector.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import { afterLookup, afterReport, type Binding, type NamedUnit, type Names } from '../../model/names.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import type { Store } from '../../store/database.ts';
import { loadNames, restartUnits, type StoredName, saveName, storedUnits } from '../../store/scope-names.ts';
import { meetsEveryUnit } from './failure-reach.ts';

/** What is known of the names in one connection's configuration, kept in the store; the rule is `model/names.ts`. */
export interface NameBook extends Names {
  /** By the names as they are configured, in lower case. */
  bindings(): readonly Binding[];
  /** Changes with each rebind: what was read before it must not be stored. */
  version(): number;
  /**
   * Asks the vendor what names lead to, if it has not done so recently. Throws only `rate_limited`, since then nothing else is
   * to be asked either; what else is wrong, polls report.
   */
  refresh(connection: Pick<Connection, 'identify'>, signal: AbortSignal): Promise<void>;
  /** There is a reason to ask again soon: a name that is not found, a delivery from elsewhere. */
  doubt(): void;
  /** Binds the names to what they lead to now. @returns what was bound again */
  rebind(connection: Pick<Connection, 'identify'>, signal: AbortSignal): Promise<readonly Binding[]>;
  /** Resolves when all bindings are stored. */
  settled(): Promise<void>;
}

export interface NameBookDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly meter: Meter;
}

/** How long the vendor's answer for a name is trusted, and how soon it is asked again if there is a reason. Milliseconds. */
const HOLDS = 24 * 60 * 60_000;
const DOUBTED = 15 * 60_000;

interface Held {
  readonly binding: Binding;
  readonly askedAt: number | null;
}

/**
 * @param entries the names in the connection's scope, as they are configured
 * @param unitOf how the connector's units name a thing by its id
 */
export async function openNameBook(
  deps: NameBookDeps,
  { connection, entries, unitOf }: { connection: string; entries: readonly string[]; unitOf?: Connector['unitOf'] },
): Promise<NameBook> {
  const { store, clock, meter } = deps;
  const logger = deps.logger.child({ connection });
  const spelling = new Map(entries.map((entry) => [entry.toLowerCase(), entry]));
  const names = [...spelling.keys()];
  const stored = await store.commit((transaction) => loadNames(transaction, connection, names));
  const held = new Map(stored.map((row) => [row.entry, heldOf(row)]));
  let version = 0;
  /** They stay in doubt until they were asked for again, however soon that may be. */
  const doubted = new Set<string>();
  let writing: Promise<void> = Promise.resolve();
  gauge();

  function gauge(): void {
    const rebound = [...held.values()].filter(({ binding }) => binding.elsewhere !== undefined);
    meter.gauge('scope_rebound', rebound.length, { connection });
  }

  function doubt(): void {
    for (const entry of names) doubted.add(entry);
  }

  /** In memory at once, so that the next delivery is judged by it; in the store soon. */
  function keep(entry: string, binding: Binding, askedAt: number | null): void {
    const before = held.get(entry);
    held.set(entry, { binding, askedAt });
    if (before?.binding !== binding) tell(before?.binding, binding);
    writing = writing.then(async () => {
      try {
        await store.commit((transaction) => saveName(transaction, connection, rowOf(binding, askedAt)));
      } catch (error) {
        logger.error({ error: asSyncError(error) }, 'the target of a name could not be stored');
      }
    });
  }

  function tell(before: Binding | undefined, { entry, id, called, elsewhere }: Binding): void {
    gauge();
    if (elsewhere !== undefined && elsewhere !== before?.elsewhere) {
      const code = 'scope_rebound';
      logger.warn({ code, name: entry, id, other: elsewhere }, 'a name leads to another target than before');
    } else if (before && before.called !== called)
      logger.info({ name: entry, id, called }, 'a repository, project or team was renamed');
  }

  return {
    idOf: (entry) => held.get(entry.toLowerCase())?.binding.id,
    bindings: () => [...held.values()].map(({ binding }) => binding),
    version: () => version,
    report(seen) {
      for (const entry of names) {
        const before = held.get(entry);
        const after = afterReport(entry, before?.binding, seen);
        if (!after || after === before?.binding) continue;
        if (after.elsewhere !== before?.binding.elsewhere) doubt();
        keep(entry, after, before?.askedAt ?? null);
      }
    },
    addressOf: (unit) => addressOf(unit, (name) => held.get(name.toLowerCase())?.binding, unitOf),
    async refresh(vendor, signal) {
      if (!vendor.identify) return;
      const due = names.filter((entry) => isDue(held.get(entry)?.askedAt ?? null, clock.now(), doubted.has(entry)));
      for (const entry of due) {
        try {
          const found = await ask(vendor, spelling.get(entry) ?? entry, signal);
          const after = afterLookup(entry, held.get(entry)?.binding, found);
          if (after) keep(entry, after, clock.now());
          doubted.delete(entry);
        } catch (thrown) {
          const error = asSyncError(thrown);
          logger.debug({ name: entry, error }, 'a name could not be resolved');
          if (error.code === 'rate_limited') throw error;
          if (error.verdict === 'retry' || meetsEveryUnit(error)) return;
        }
      }
      await writing;
    },
    doubt,
    async rebind(vendor, signal) {
      const waiting = [...held.values()].filter(({ binding }) => binding.elsewhere !== undefined);
      const bound: Binding[] = [];
      for (const { binding } of waiting) {
        const { entry, elsewhere = '' } = binding;
        // If the vendor cannot be asked, only deliveries tell what a name leads to.
        const found = vendor.identify
          ? await ask(vendor, spelling.get(entry) ?? entry, signal)
          : { id: elsewhere, name: entry };
        if (found && found.id !== binding.id) bound.push({ entry, id: found.id, called: found.name });
        else keep(entry, afterLookup(entry, binding, found) ?? binding, clock.now());
      }
      if (bound.length === 0) return bound;
      await writing;
      version++;
      const now = clock.now();
      await storeAnew(store, connection, bound, now);
      for (const binding of bound) held.set(binding.entry, { binding, askedAt: now });
      gauge();
      logger.info({ bound }, 'names were bound again');
      return bound;
    },
    settled: () => writing,
  };
}

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

/** Their units are read from the start. */
async function storeAnew(store: Store, connection: string, bound: readonly Binding[], now: number): Promise<void> {
  const entries = new Set(bound.map(({ entry }) => entry));
  await store.commit(async (transaction) => {
    const kept = await storedUnits(transaction, connection);
    const units = kept.filter((unit) => entries.has(unit.replace(/^[a-z]+:/, '').toLowerCase()));
    await restartUnits(transaction, connection, units, { now, reason: 'scope_rebound: the name was bound again' });
    for (const binding of bound) await saveName(transaction, connection, rowOf(binding, now));
  });
}

/** Whether a name is to be asked for again. */
function isDue(askedAt: number | null, now: number, isDoubted: boolean): boolean {
  if (askedAt === null) return true;
  // A time ahead of ours is of a clock that was set back.
  const age = now - askedAt;
  return age < 0 || age >= (isDoubted ? DOUBTED : HOLDS);
}

/** Undefined: the name leads to nothing. */
async function ask(
  { identify }: Pick<Connection, 'identify'>,
  name: string,
  signal: AbortSignal,
): Promise<NamedUnit | undefined> {
  if (!identify) throw new SyncError('refused', 'this connection cannot resolve names');
  try {
    return await identify(name, signal);
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found') throw error;
    return undefined;
  }
}

function heldOf({ entry, id, called, elsewhere, askedAt }: StoredName): Held {
  return { binding: { entry, id, called, ...(elsewhere === null ? {} : { elsewhere }) }, askedAt };
}

function rowOf({ entry, id, called, elsewhere }: Binding, askedAt: number | null): StoredName {
  return { entry, id, called, elsewhere: elsewhere ?? null, askedAt };
}

/** The connection as stages use it: its units keep their names, and its vendor is asked by ids. */
export function byId(connection: Connection, book: NameBook): Connection {
  const { history, sweep } = connection;
  return {
    ...connection,
    async units(signal) {
      const seen = new Set<string>();
      const units = await connection.units(signal);
      // What is named and then renamed may be listed a second time by its id.
      return units.filter((unit) => {
        const address = book.addressOf(unit);
        return !seen.has(address) && seen.add(address);
      });
    },
    poll: (position, signal) => connection.poll({ ...position, unit: book.addressOf(position.unit) }, signal),
    ...(history && {
      history: (position, signal) => history({ ...position, unit: book.addressOf(position.unit) }, signal),
    }),
    ...(sweep && { sweep: (unit, page, signal) => sweep(book.addressOf(unit), page, signal) }),
  };
}
