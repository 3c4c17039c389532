/**
 * A name identifies a thing only for a while: a repository, a project or a team is renamed, and another one may take
 * its name. So each name of a configuration is bound to the vendor's id of the thing that it named first. From then on
 * the id counts:
 *
 *   unbound  the name was never looked up, and means the thing that has this name
 *   bound    the name means the thing with this id, whatever that is called now
 *   rebound  the vendor has given the name to another thing. The name still means the bound thing, and worksync takes
 *            nothing from the other one until a person confirms it.
 *
 * Only the vendor's answer to a lookup of the name decides between `bound` and `rebound`. A delivery that shows another
 * thing with the name is a hint, since it may be late.
 */
export interface Binding {
  /** The name in the configuration, in lower case, because case does not count. */
  readonly entry: string;
  readonly id: string;
  /** The current name of the thing. */
  readonly called: string;
  /** The id of another thing that has the name now. */
  readonly elsewhere?: string;
}

/** A repository, project or team, as a delivery or an answer names it. */
export interface NamedUnit {
  readonly id: string;
  readonly name: string;
}

/** The current bindings of the names of one connection. */
export interface Names {
  /** Returns the id that a name is bound to. */
  idOf(entry: string): string | undefined;
  /** Returns the form in which the vendor is asked for a unit: the bound id if there is one, else the name. */
  addressOf(unit: string): string;
  /** Reports a thing that a verified delivery or an answer named. */
  report(seen: NamedUnit): void;
  /** Reports whether the thing that a delivery named is in the scope. Absent: nobody needs to know. */
  reportScope?(seen: NamedUnit, isInScope: boolean): void;
}

/** Returns fixed names, for samples: reports do not change them. */
export function boundNames(bindings: readonly Binding[]): Names {
  const idOf = (entry: string) => bindings.find((each) => each.entry === entry.toLowerCase())?.id;
  return { idOf, addressOf: (unit) => idOf(unit) ?? unit, report: () => undefined };
}

function bindingOf(entry: string, { id, name }: NamedUnit): Binding {
  return { entry, id, called: name };
}

/** Returns the binding after a delivery named a thing: the same object if the delivery shows nothing new. */
export function afterReport(entry: string, binding: Binding | undefined, unit: NamedUnit): Binding | undefined {
  const hasName = unit.name.toLowerCase() === entry;
  if (!binding) return hasName ? bindingOf(entry, unit) : undefined;
  if (binding.id === unit.id) return binding.called === unit.name ? binding : { ...binding, called: unit.name };
  return !hasName || binding.elsewhere === unit.id ? binding : { ...binding, elsewhere: unit.id };
}

/**
 * Returns the binding after the vendor was asked for the name.
 *
 * @param found the thing that has the name now; undefined: none
 */
export function afterLookup(
  entry: string,
  binding: Binding | undefined,
  found: NamedUnit | undefined,
): Binding | undefined {
  if (!binding) return found && bindingOf(entry, found);
  const { elsewhere: _, ...bound } = binding;
  if (!found) return bound;
  return found.id === binding.id ? { ...bound, called: found.name } : { ...bound, elsewhere: found.id };
}
