/**
 * Workspace users by the names that a vendor knows them by: for a connection, a connector, or `email`. Whoever has no
 * entry is left out, never guessed.
 */
export type Users = Readonly<Record<string, Readonly<Record<string, string>>>>;

interface Among {
  readonly connection: string;
  readonly connector: string;
  /** E-mail addresses by the vendor's names, where it tells them. */
  readonly emails: Readonly<Record<string, string>>;
}

/** Tells the workspace user of a vendor's name, in any case. */
export function userFinder(
  users: Users,
  { connection, connector, emails }: Among,
): (name: string | null | undefined) => string | undefined {
  return (name) => {
    if (!name) return undefined;
    const email = Object.hasOwn(emails, name) ? emails[name] : undefined;
    return find(users, connection, name) ?? find(users, connector, name) ?? find(users, 'email', email ?? name);
  };
}

function find(users: Users, table: string, name: string): string | undefined {
  if (!Object.hasOwn(users, table)) return undefined;
  const wanted = name.toLowerCase();
  return Object.entries(users[table] as Record<string, string>).find(([key]) => key.toLowerCase() === wanted)?.[1];
}
