/** Number of the layout of the database: that of its last migration. */
export const SCHEMA = 6;

/** The commit of the first migration. Databases of commits before it cannot be read. */
export const OLDEST_COMMIT = '5ada3647';

/**
 * Number of what processes say to each other: commands to their daemon, and replicas among themselves. Raise it with each change that
 * a process of the number before cannot read.
 */
export const PROTOCOL = 1;

/** Describes a program: this one, or another one by what it says of itself. Versions before these numbers say nothing. */
export function describeBuild(
  version: string,
  { schema, protocol }: { readonly schema: number | null; readonly protocol: number | null } = {
    schema: SCHEMA,
    protocol: PROTOCOL,
  },
): string {
  return `${version} (schema ${schema ?? 'unknown'}, protocol ${protocol ?? 'unknown'})`;
}
