const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `90s`, `5m`, `1h`, `14d`; never zero. */
export const DURATION = /^([1-9]\d{0,8})(ms|s|m|h|d)$/;

/** Returns milliseconds; undefined if the text is no duration. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION.exec(text);
  return match ? Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS] : undefined;
}

/** Returns the shortest spelling of a number of milliseconds, for messages. */
export function durationText(ms: number): string {
  const unit = (['d', 'h', 'm', 's'] as const).find((name) => ms % UNIT_MS[name] === 0) ?? 'ms';
  return `${ms / UNIT_MS[unit]}${unit}`;
}

export const MEBIBYTE = 1024 * 1024;

const UNITS = [
  ['day', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** `2 days`, `3 h`, `12 min`, `5 s`: one unit is enough for a glance. */
export function duration(ms: number): string {
  for (const [unit, size] of UNITS) {
    const count = Math.floor(ms / size);
    if (count > 0) return unit === 'day' && count > 1 ? `${count} days` : `${count} ${unit}`;
  }
  return '0 s';
}

/** `1,234`. Small numbers, which are most, need no language: its data takes 10 ms to load. */
export function count(value: number): string {
  return Math.abs(value) < 1_000 && Number.isInteger(value) ? String(value) : value.toLocaleString('en');
}

/** `1 change`, `2 changes`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
}

export function bytes(value: number): string {
  if (value < 1_000_000) return `${Math.ceil(value / 1_000)} kB`;
  if (value < 1_000_000_000) return `${(value / 1_000_000).toFixed(1)} MB`;
  return `${(value / 1_000_000_000).toFixed(1)} GB`;
}
