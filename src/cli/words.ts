/** Words and numbers as people read them. */

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** `3 s`, `2 min`, `4 h`, `5 days` */
export function span(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1_000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/** When the last of the waiting requests is sent; null: nothing is sent. Less than a second is no wait. */
export function lastSent(at: number | null, now: number): string {
  if (at === null) return 'none of them while the workspace is blocked';
  return at >= now + 1_000 ? `the last in ${span(at - now)}` : 'all of them now';
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** A moment in UTC, epoch milliseconds, as logs write it. */
export function at(time: number): string {
  return new Date(time).toISOString();
}

/** Rows in columns as wide as their widest cell. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Everything but the line breaks and tabs of our own tables. */
const UNSAFE = /[^\P{Cc}\t\n]|[\p{Cf}\p{Zl}\p{Zp}]/gu;
/** The start of a command that CI services execute anywhere in a line (Azure Pipelines, GitHub Actions). */
const CI_COMMAND = /#(?=#(?:vso)?\[)/g;
/** The start of a command that GitHub Actions executes at the start of a line. */
const CI_COMMAND_AT_START = /^\s*:(?=:)/;

/**
 * A text as a command prints it, whoever wrote parts of it: titles, arguments, answers. It commands neither the terminal nor the CI
 * service that keeps the log. A line of JSON keeps its value: what is unsafe is written as `\\uXXXX`.
 */
export function safeOutput(text: string): string {
  return text.split('\n').map(safeLine).join('\n');
}

function safeLine(line: string): string {
  if (/^[{[]/.test(line)) return line.replace(UNSAFE, escaped).replace(/:(?=:)|#(?=#)/g, escaped);
  return line.replace(UNSAFE, '\ufffd').replace(CI_COMMAND, '$& ').replace(CI_COMMAND_AT_START, '$& ');
}

/** In JSON: signs that it does not need outside of its texts. */
function escaped(sign: string): string {
  return Array.from({ length: sign.length }, (_, at) => `\\u${sign.charCodeAt(at).toString(16).padStart(4, '0')}`).join(
    '',
  );
}

/** `12 ms`, `3.4 s`, then as `span` has it. */
export function brief(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  return milliseconds < 10_000 ? `${(milliseconds / 1_000).toFixed(1)} s` : span(milliseconds);
}
