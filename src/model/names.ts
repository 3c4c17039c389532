/**
 * Names lead to things only for a while: a repository, a project or a team is renamed, and another one may take its name. So
 * each name of a configuration is bound to the vendor's id of what it led to first. From then on the id counts:
 *
 *   unbound  the name was never looked up; it means whatever has this name
 *   bound    it means the thing with this id, whatever its name is now
 *   rebound  the name leads to another id: it still means the thing with the bound id, and worksync takes nothing from the
 *            other, until a person confirms the other one
 *
 * What the vendor answers when it is asked for the name decides between `bound` and `rebound`. A delivery that says that the
 * name went elsewhere is only a hint, since it may be late.
 */
export interface Binding {
  /** The name as the configuration has it, in lower case: case does not count. */
  readonly entry: string;
  readonly id: string;
  /** What the thing is called now. */
  readonly called: string;
  /** The other id that the name leads to. */
  readonly elsewhere?: string;
}

/** A repository, project or team as somebody tells of it. */
export interface NamedUnit {
  readonly id: string;
  readonly name: string;
}

/** What is known of the names of one connection, as it is at the moment. */
export interface Names {
  /** The id that a name is bound to. */
  idOf(entry: string): string | undefined;
  /** The entry, or the unit of that name, as its vendor is asked for it: by the id that the name is bound to. */
  addressOf(unit: string): string;
  /** Somebody told of a thing, by a delivery that was proved or an answer. */
  report(seen: NamedUnit): void;
}

/** What is known of the names, as it is now: nothing that a sample tells changes it. */
export function boundNames(bindings: readonly Binding[]): Names {
  const idOf = (entry: string) => bindings.find((each) => each.entry === entry.toLowerCase())?.id;
  return { idOf, addressOf: (unit) => idOf(unit) ?? unit, report: () => undefined };
}

function bindingOf(entry: string, { id, name }: NamedUnit): Binding {
  return { entry, id, called: name };
}

/** After a delivery told of something. The same object where it says nothing new. */
export function afterReport(entry: string, held: Binding | undefined, seen: NamedUnit): Binding | undefined {
  const carriesName = seen.name.toLowerCase() === entry;
  if (!held) return carriesName ? bindingOf(entry, seen) : undefined;
  if (held.id === seen.id) return held.called === seen.name ? held : { ...held, called: seen.name };
  return !carriesName || held.elsewhere === seen.id ? held : { ...held, elsewhere: seen.id };
}

/** After the vendor was asked what the name leads to; undefined: to nothing. */
export function afterLookup(
  entry: string,
  held: Binding | undefined,
  found: NamedUnit | undefined,
): Binding | undefined {
  if (!held) return found && bindingOf(entry, found);
  const { elsewhere: _, ...bound } = held;
  if (!found) return bound;
  return found.id === held.id ? { ...bound, called: found.name } : { ...bound, elsewhere: found.id };
}
