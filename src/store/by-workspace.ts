/** The part of a result that belongs to one workspace, by the number of the workspace. */
export type ByWorkspace<Part> = (workspace: number) => Part;

interface OwnedRow {
  readonly workspace: number;
}

/** Groups the rows that one statement read for several workspaces. */
export function groupByWorkspace<Row extends OwnedRow>(rows: readonly Row[]): ByWorkspace<readonly Row[]> {
  const groups = Map.groupBy(rows, (row) => row.workspace);
  return (workspace) => groups.get(workspace) ?? [];
}

/** Maps each workspace to the count that one statement found for it; 0 without a row. */
export function countsByWorkspace(rows: readonly (OwnedRow & { readonly count: number })[]): ByWorkspace<number> {
  const counts = new Map(rows.map(({ workspace, count }) => [workspace, count]));
  return (workspace) => counts.get(workspace) ?? 0;
}

/** Removes the number of the workspace, which is not shown. */
export function withoutWorkspace<Row extends OwnedRow>(row: Row): Omit<Row, 'workspace'> {
  const { workspace: _workspace, ...rest } = row;
  return rest;
}
