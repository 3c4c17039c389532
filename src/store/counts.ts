import type { Selectable } from 'kysely';
import type { Tables } from './tables.ts';
import type { Scope, Sql } from './workspace-scope.ts';

/** How many rows of a workspace there are, told by a look at some tens of rows, however many they are. */
export interface Counts {
  readonly items: number;
  readonly tasks: number;
  readonly fetches: readonly Count<'fetches', 'connection'>[];
  readonly entities: readonly Count<'entities', 'kind' | 'hand'>[];
  readonly changes: readonly Count<'outbox', 'kind' | 'state' | 'lane' | 'effect' | 'guard'>[];
}

/** Rows that agree in these columns. */
type Count<Table extends keyof Tables, Column extends keyof Selectable<Tables[Table]>> = Pick<
  Selectable<Tables[Table]>,
  Column
> & {
  readonly count: number;
};

/** Of several workspaces. */
export async function countsOf(query: Sql, workspaces: readonly number[]): Promise<(workspace: number) => Counts> {
  const rows = await query
    .selectFrom('counts')
    .select(['workspace', 'counted', 'class', 'count'])
    .where('workspace', 'in', workspaces)
    .where('count', '>', 0)
    .execute();
  const byWorkspace = Map.groupBy(rows, ({ workspace }) => workspace);
  return (workspace) => {
    const own = byWorkspace.get(workspace) ?? [];
    const classes = <Each>(table: (typeof rows)[number]['counted']) =>
      own
        .filter(({ counted }) => counted === table)
        .map((row) => ({ ...JSON.parse(row.class), count: row.count }) as Each);
    return {
      items: sumOf(classes<{ count: number }>('items')),
      tasks: sumOf(classes<{ count: number }>('tasks')),
      fetches: classes('fetches'),
      entities: classes('entities'),
      changes: classes('outbox'),
    };
  };
}

export async function readCounts({ whole, workspace }: Scope): Promise<Counts> {
  const counts = await countsOf(whole, [workspace]);
  return counts(workspace);
}

/** Counts those that pass the test; without a test: all. */
export function sumOf<Each extends { readonly count: number }>(
  counts: readonly Each[],
  isMeant: (each: Each) => boolean = () => true,
): number {
  return counts.reduce((sum, each) => (isMeant(each) ? sum + each.count : sum), 0);
}
