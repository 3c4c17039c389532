/** Days that a version must have been out before npm takes it: most bad ones are found and withdrawn within these. */
export const LEAST_AGE = 3;

/**
 * Returns the faults of `.npmrc`, one sentence each. Since the lock file names no addresses, `npm ci` finds each version at the registry, and
 * refuses one that is too new there too. `npm install <package> --min-release-age=0` takes one all the same.
 */
export function faultsOfSettings(npmrc: string): readonly string[] {
  const settings = new Map(
    npmrc.split('\n').map((line) => line.split('=', 2).map((part) => part.trim()) as [string, string]),
  );
  const age = Number(settings.get('min-release-age') ?? 0);
  const excepted = npmrc.split('\n').filter((line) => line.startsWith('min-release-age-exclude'));
  return [
    ...(settings.get('ignore-scripts') === 'true' ? [] : ['.npmrc lets packages run scripts when they are installed']),
    ...(age >= LEAST_AGE ? [] : [`.npmrc takes versions that have been out for less than ${LEAST_AGE} days`]),
    ...excepted.map((line) => `.npmrc takes some versions at once: ${line}`),
  ];
}
