/** A unit is one list of one repository: its pull requests, or its issues. */
interface Unit {
  /** Name or id. */
  readonly repository: string;
  readonly list: 'pulls' | 'issues';
}

const ISSUES = 'issues:';

export function unitsOf(repositories: readonly string[], withIssues: boolean): readonly string[] {
  return repositories.flatMap((repository) => (withIssues ? [repository, ISSUES + repository] : [repository]));
}

export function readUnit(unit: string): Unit {
  if (unit.startsWith(ISSUES)) return { repository: unit.slice(ISSUES.length), list: 'issues' };
  return { repository: unit, list: 'pulls' };
}
