import { type ZodType, z } from 'zod';
import { checkRuleStatuses, rules, taskStatuses, triage, users, writeBack } from './rules-schema.ts';
import { address, duration, liveSecrets, mirror, name, optionalDuration, schedule, webAddresses } from './values.ts';

/** The part of a connector that the configuration uses; an entry of the registry fits. */
export interface ConnectorOptions {
  readonly id: string;
  readonly title: string;
  /** The connector's own keys, a strict object. */
  readonly options: ZodType;
  /** Shortest pause between two polls that the vendor allows with these options, milliseconds. */
  shortestPoll?(options: never): number;
  /** Returns why no webhook can be verified with this secret. Absent: each text is a usable secret. */
  secretProblem?(secret: string): string | undefined;
}

/** One workspace, read and checked. Durations are milliseconds, and the workspace without an address is the embedded service. */
export interface WorkspaceConfig extends Omit<z.output<ReturnType<typeof workspaceFile>>, '$schema' | 'connections'> {
  /** Appears in addresses and as the name of the database file. */
  readonly name: string;
  /** The file it came from. */
  readonly file: string;
  readonly connections: readonly ConnectionConfig[];
}

export interface ConnectionConfig extends Readonly<Required<z.output<typeof connectionKeys>>> {
  readonly name: string;
  /** The options as parsed by the connector's schema. */
  readonly options: unknown;
}

const quota = z
  .strictObject({
    requests: z.int().min(1).default(200).describe('Requests that the workspace allows in one long window.'),
    window: duration('15m', 'Length of the long window.'),
    burst: z.int().min(1).default(40).describe('Requests that the workspace allows in one short window.'),
    burstWindow: duration('1m', 'Length of the short window.'),
    share: z
      .union([z.literal('auto'), z.number().gt(0).max(1)], { error: 'expected auto, or a number above 0 and up to 1' })
      .default('auto')
      .describe(
        "Share of both limits that background work uses; the rest is for the workspace's other users. `auto`: nearly all while no other use is detected, and less for some hours after one was.",
      ),
    concurrency: z.int().min(1).max(64).default(8).describe('Most requests in flight at the same time.'),
    visibility: optionalDuration(
      'How soon a change must be visible in the workspace. Absent: within seconds. A longer time takes fewer requests.',
    ),
  })
  .check((context) => {
    const { requests, burst, share, window, burstWindow } = context.value;
    const refuse = (key: string, message: string) =>
      context.issues.push({ code: 'custom', path: [key], message, input: share });
    if (share !== 'auto' && Math.min(requests, burst) * share < 1)
      refuse('share', 'this share leaves no request at all');
    if (burstWindow > window) refuse('burstWindow', 'the short window is longer than the long one');
  })
  .prefault({})
  .describe('The request quota of the workspace, which everything that uses the workspace shares.');

const retention = z
  .strictObject({
    bodies: duration('14d', 'How long worksync keeps the raw bytes of deliveries.'),
    deliveries: duration('90d', 'How long worksync keeps delivery ids: it recognises a repeat within this time.'),
  })
  .check((context) => {
    const { bodies, deliveries } = context.value;
    if (deliveries < bodies)
      context.issues.push({
        code: 'custom',
        path: ['deliveries'],
        message: 'delivery ids must be kept at least as long as bodies',
        input: deliveries,
      });
  })
  .prefault({})
  .describe('How long worksync keeps deliveries.');

/** A number, or `off`, which yields Infinity. */
function limit(standard: number, description: string) {
  return z
    .union([z.int().min(0), z.literal('off').transform(() => Number.POSITIVE_INFINITY)], {
      error: 'expected a whole number, or off',
    })
    .prefault(standard)
    .describe(description);
}

const guard = z
  .strictObject({
    removals: limit(20, 'Most links to be removed and records to be closed that may wait at the same time.'),
    creations: limit(
      200,
      'Most records, links and tasks to be created that may wait at the same time. Creations that a webhook of a trusted author causes within 15 minutes do not count.',
    ),
    repairs: limit(
      100,
      'Most records found changed by a sweep of the workspace that may wait for repair at the same time.',
    ),
    statuses: limit(
      50,
      'Most changes of task statuses that may wait at the same time. Changes that a webhook causes within 15 minutes count only if it causes more.',
    ),
  })
  .prefault({})
  .describe(
    'Guard against mass changes: worksync holds what exceeds these numbers until somebody releases it; `worksync held` names the command.',
  );

const webhook = z
  .strictObject({
    key: liveSecrets('The shared key that the workspace sends as `X-Service-Webhook-Key`'),
    secret: liveSecrets('The secret that signs `X-Service-Signature`'),
    headers: z
      .string()
      .regex(/^[A-Za-z][A-Za-z0-9-]{0,48}-$/, 'expected the beginning of header names, such as X-Service-')
      .default('X-Service-')
      .describe('Prefix of all header names of these webhooks; upper and lower case are the same.'),
  })
  .refine(
    ({ key, secret }) => key.length + secret.length > 0,
    'set key, secret, or both: worksync refuses webhooks that prove nothing',
  )
  .describe(
    "The workspace's own webhooks, sent to `/webhooks/<workspace>/workspace`; a webhook must match each of key and secret that is set.",
  );

const gateway = z
  .strictObject({
    fresh: duration('15s', 'How long the gateway answers repeated reads from its cache.'),
    wait: duration('20s', 'How long a caller waits for a free slot of the quota before it gets 429.'),
    keyPrefix: z
      .string()
      .min(1)
      .default('wsk_')
      .describe("Prefix of the workspace's API keys: only callers with such a key get cached reads."),
  })
  .prefault({})
  .describe('The API of the workspace on the port of the daemon, for jobs and scripts.');

const poll = schedule({
  default: '5m',
  description:
    'How often worksync asks the vendor for changes. At least 10 s. The default is longer where the limit of the vendor needs it.',
});

const sweep = schedule({
  description:
    'How often a sweep lists everything that exists at the vendor, to find deletions that no webhook reported. Absent: once a day; off where poll is off.',
});

const workspaceSweep = schedule({
  default: '24h',
  description:
    'How often a sweep lists the tasks and pull requests of the workspace and compares them with what worksync knows. It repairs records that somebody changed.',
}).prefault('24h');

/** Keys that every connection has, whatever its connector. */
export const connectionKeys = z
  .strictObject({
    connector: z.string().describe('The vendor.'),
    webhookSecrets: liveSecrets('Secrets that sign the webhooks'),
    poll: poll.optional(),
    sweep: sweep.optional(),
    mirror: mirror.optional(),
    writeBack,
  })
  .check((context) => {
    const { poll, webhookSecrets: secrets } = context.value;
    if (poll === 'off' && secrets.length === 0)
      context.issues.push({
        code: 'custom',
        path: ['poll'],
        message: 'nothing would ever come in: set webhookSecrets, or let it poll',
        input: poll,
      });
  });

/** A workspace file without the options of its connections, which depend on their connector. */
export function workspaceFile(apiOverrides: ZodType) {
  return z
    .strictObject({
      $schema: z.string().optional().describe('Address of the schema, for editors; without effect.'),
      name: name.optional().describe('Name of the workspace. Absent: the name of the file.'),
      workspace: z
        .strictObject({
          url: address.optional(),
          id: z
            .string()
            .regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected letters, digits, _ and -, at most 64 of them')
            .default('current')
            .describe('The workspaceId in the paths of the API.'),
          apiKey: z.string().min(1).optional().describe('Key for the API; needed with url.'),
          webhook: webhook.optional(),
          web: webAddresses,
          sweep: workspaceSweep,
          statuses: taskStatuses,
          api: apiOverrides.optional().describe('Overrides for an API that differs from the specification.'),
        })
        .check(checkWorkspace)
        .prefault({})
        .describe('The workspace: its API, its key, its quota.'),
      quota,
      retention,
      guard,
      gateway,
      mirror: mirror.default('auto'),
      rules,
      triage,
      users,
      connections: z
        .record(connectionName, z.unknown())
        .refine((given) => Object.keys(given).length > 0, 'nothing would ever come in: add a connection')
        .describe('Connections to vendors, by name.'),
    })
    .check(checkRuleStatuses);
}

/** Deliveries of the workspace itself have this name in the inbox. */
const connectionName = name.refine((text) => text !== 'workspace', 'this name is reserved for the workspace itself');

function checkWorkspace(context: z.core.ParsePayload<{ url?: string | undefined; apiKey?: string | undefined }>): void {
  const { url, apiKey } = context.value;
  if (url !== undefined && apiKey === undefined)
    context.issues.push({ code: 'custom', path: ['url'], message: 'url needs apiKey beside it', input: url });
  if (url === undefined && apiKey !== undefined)
    context.issues.push({
      code: 'custom',
      path: ['apiKey'],
      message: 'apiKey needs url beside it; the embedded service makes its own key',
      input: url,
    });
}
