const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `90s`, `5m`, `1h`, `14d`; never zero. */
export const DURATION = /^([1-9]\d{0,8})(ms|s|m|h|d)$/;

/** Milliseconds; undefined where the text is no duration. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION.exec(text);
  return match ? Number(match[1]) * UNITS[match[2] as keyof typeof UNITS] : undefined;
}

/** The shortest spelling of a number of milliseconds, for messages. */
export function durationText(ms: number): string {
  const unit = (['d', 'h', 'm', 's'] as const).find((name) => ms % UNITS[name] === 0) ?? 'ms';
  return `${ms / UNITS[unit]}${unit}`;
}
