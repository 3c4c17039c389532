import { inspect } from 'node:util';

/**
 * The registry of error codes. A code is stable: scripts and alerts may branch on it.
 *
 * verdict  `retry`       may succeed when it is repeated later;
 *          `wait-until`  succeeds only after a certain event: a time, a new key, free space;
 *          `never`       a repetition is useless.
 * hint     the remedy.
 * exit     exit code of the command line when this error ends it, from sysexits if one fits.
 */
export type Verdict = 'retry' | 'wait-until' | 'never';

interface Entry {
  readonly verdict: Verdict;
  readonly hint: string;
  readonly exit?: number;
}

export const CODES = {
  // command line and configuration
  usage: {
    verdict: 'never',
    hint: 'Run the command with --help to see what it takes.',
    exit: 2,
  },
  node_too_old: {
    verdict: 'never',
    hint: 'Install a newer Node, or run the image, which has one.',
    exit: 78,
  },
  body_invalid: {
    verdict: 'never',
    hint: 'Correct the fields of the body that the message names.',
    exit: 2,
  },
  config_invalid: {
    verdict: 'never',
    hint: 'Correct the keys that the message names; config/reference.md lists every key.',
    exit: 78,
  },
  config_unreadable: {
    verdict: 'never',
    hint: 'Check that the path exists and that the user of the daemon may read it.',
    exit: 78,
  },
  workspace_removed: {
    verdict: 'wait-until',
    hint: 'Put its file back, or run "worksync forget <workspace> --yes" to delete its rows.',
    exit: 78,
  },
  secret_missing: {
    verdict: 'never',
    hint: 'Set the named variable, or the same name with _FILE and a path.',
    exit: 78,
  },
  public_url_missing: {
    verdict: 'never',
    hint: 'Say where vendors reach the daemon: --public-url https://… or WORKSYNC_PUBLIC_URL.',
    exit: 78,
  },
  locked: {
    verdict: 'wait-until',
    hint: 'Another process uses this data folder: stop it, or give each daemon its own folder.',
    exit: 75,
  },
  secret_key_missing: {
    verdict: 'wait-until',
    hint: 'Put the key file back beside the database, or give its key as WORKSYNC_SECRET_KEY. Nothing was changed.',
    exit: 78,
  },
  secret_key_wrong: {
    verdict: 'wait-until',
    hint: 'Give the key that encrypted the stored secrets: the file beside the database, or WORKSYNC_SECRET_KEY.',
    exit: 78,
  },
  data_folder_unusable: {
    verdict: 'wait-until',
    hint: 'Let this user write the named file and its folder, or name another folder; for data: --data or WORKSYNC_DATA.',
    exit: 78,
  },
  address_in_use: {
    verdict: 'wait-until',
    hint: 'Another program listens there: choose another port with --port or WORKSYNC_PORT.',
    exit: 75,
  },
  rotation_waiting: {
    verdict: 'wait-until',
    hint: 'Give the new key to all that use the old one, then repeat the same command: it goes on where it stopped.',
    exit: 75,
  },
  generated_stale: { verdict: 'never', hint: 'Run npm run generate and commit what it writes.' },
  not_running: {
    verdict: 'wait-until',
    hint: 'Start the daemon first: "worksync run". If it uses another data folder, name that folder with --data.',
    exit: 75,
  },
  not_answering: {
    verdict: 'retry',
    hint: 'The daemon runs, but it did not answer in time: look at its log, then try again.',
    exit: 75,
  },
  // storage
  disk_full: {
    verdict: 'wait-until',
    hint: 'Free space on the volume of the data folder; work resumes by itself.',
    exit: 75,
  },
  database_newer: {
    verdict: 'never',
    hint: 'This database was written by a newer version: run that version, or restore a backup.',
    exit: 78,
  },
  database_too_old: {
    verdict: 'never',
    hint: 'Keep the file, and start with an empty data folder at least 15 minutes after the last request to the workspace. Vendors and workspace still have everything else; approvals, undo, history, gateway tokens and which links people removed are lost, so such links may come back.',
    exit: 78,
  },
  database_corrupt: {
    verdict: 'never',
    hint: 'Stop the daemon, put the file back or restore a backup, and start it again. Without either, move the file away: the daemon reads workspace and providers anew, and everybody has to log in again.',
    exit: 78,
  },
  database_failed: {
    verdict: 'retry',
    hint: 'Another process has locked the file, or memory or file handles are short: see the cause, then try again.',
    exit: 75,
  },
  backup_refused: {
    verdict: 'never',
    hint: 'Give a file that "worksync backup" wrote. Nothing was changed.',
    exit: 78,
  },
  copy_unfinished: {
    verdict: 'wait-until',
    hint: 'Repeat the same "worksync store copy" until it has ended, or delete what it has copied: the same command with --give-up.',
    exit: 78,
  },
  database_away: {
    verdict: 'retry',
    hint: 'See whether PostgreSQL runs and takes writes: webhooks are answered 503 meanwhile, and work resumes by itself.',
    exit: 75,
  },
  lease_lost: {
    verdict: 'retry',
    hint: 'Another process of the installation has taken over the workspace. You need not do anything.',
    exit: 75,
  },
  held_elsewhere: {
    verdict: 'wait-until',
    hint: 'Another replica works on the workspace, or will in a moment: try again.',
    exit: 75,
  },
  // intake
  signature_missing: {
    verdict: 'never',
    hint: 'Set a secret on the webhook at the provider, the same as in the configuration.',
  },
  signature_mismatch: {
    verdict: 'never',
    hint: 'The webhook secrets at the provider and in the configuration differ: set the same one in both.',
  },
  signature_expired: {
    verdict: 'never',
    hint: "Set this machine's clock. If it is right, the delivery came too late or was replayed: send it again at the provider.",
  },
  delivery_malformed: {
    verdict: 'never',
    hint: 'The body does not match its event; worksync keeps the delivery in quarantine.',
  },
  over_budget: {
    verdict: 'never',
    hint: 'Its text takes too long to read, perhaps on purpose. Look at it where it was written; "worksync quarantine retry <number>" reads it again.',
  },
  connection_unknown: {
    verdict: 'never',
    hint: 'Configure the connection again, or do nothing: worksync deletes the delivery when its retention time ends.',
  },
  payload_too_large: {
    verdict: 'never',
    hint: 'The body exceeds the size limit of this connector.',
  },
  inbox_full: {
    verdict: 'wait-until',
    hint: 'Too many deliveries wait. The daemon takes new ones again when it has processed some.',
  },
  scope_rebound: {
    verdict: 'wait-until',
    hint: 'If you mean the new one, run "worksync connections rebind" with the connection; else correct the name in the configuration.',
  },
  // results of the CI gate
  not_received: {
    verdict: 'wait-until',
    hint: 'Its webhook may be on its way: give "worksync ci" a time with --wait. If that does not help, look at the connection with "worksync check".',
    exit: 75,
  },
  not_linked: {
    verdict: 'never',
    hint: 'Put the key of a task into the title, the description or the branch of the pull request.',
    exit: 1,
  },
  // the outbox
  guard_held: {
    verdict: 'wait-until',
    hint: 'List them with "worksync held", which names the command that releases each kind.',
  },
  plan_changed: {
    verdict: 'never',
    hint: 'Nothing was sent. Look at the current plan with "worksync plan", and apply that one.',
  },
  // requests to the workspace and to providers
  unreachable: {
    verdict: 'retry',
    hint: 'Check the address, DNS, the network and TLS; the request was not sent.',
  },
  outcome_unknown: {
    verdict: 'retry',
    hint: 'No answer came, so worksync does not know whether the server carried out the request.',
  },
  unauthorized: {
    verdict: 'wait-until',
    hint: 'The credential is wrong or revoked: set a new one.',
    exit: 77,
  },
  consent_needed: {
    verdict: 'wait-until',
    hint: "Give your app consent again, and put the new refresh token where the configuration reads it: worksync reads a changed file at once, a variable at its next start. The connector's README says how.",
    exit: 77,
  },
  forbidden: {
    verdict: 'wait-until',
    hint: 'The credential lacks the right for this: widen its scope.',
    exit: 77,
  },
  rate_limited: {
    verdict: 'wait-until',
    hint: 'A limit of requests is used up. worksync sends the request when the limit allows it again.',
    exit: 75,
  },
  not_found: {
    verdict: 'never',
    hint: 'The thing does not exist, or the credential may not see it.',
  },
  conflict: {
    verdict: 'never',
    hint: 'Look at the present state and decide anew: the same request would be refused again.',
  },
  refused: {
    verdict: 'never',
    hint: 'Correct what the message names: the same request would be refused again.',
  },
  server_failed: {
    verdict: 'retry',
    hint: 'The server failed; worksync tries again with growing pauses.',
  },
  workspace_full: {
    verdict: 'wait-until',
    hint: 'Free space on the volume of the workspace server. worksync repeats the writes every 30 s and goes on by itself.',
    exit: 75,
  },
  status_unknown: {
    verdict: 'never',
    hint: 'Name the word of the workspace for this status in workspace.statuses, or allow the status there, then run "worksync held release --refused".',
  },
  workflow_contested: {
    verdict: 'never',
    hint: 'Switch the other automation off, then run "worksync held release --refused" for the changes held so far. New ones are sent when fewer than 20 were changed back in a day.',
  },
  update_clears_fields: {
    verdict: 'never',
    hint: 'Set workspace.api.taskUpdate: whole, or name another route or method in workspace.api.routes.updateTask.',
  },
  answer_malformed: {
    verdict: 'retry',
    hint: 'The answer does not match the specification: check the address.',
  },
  list_endless: {
    verdict: 'never',
    hint: 'The vendor names pages on and on. worksync reads the list again at its next time. Correct the page tokens if the feed is yours; otherwise report it to the vendor.',
  },
  feature_off: {
    verdict: 'never',
    hint: 'Nothing needs to be done: worksync looks again at each poll. Switch the feature on at the vendor if you want it.',
  },
  answer_too_large: {
    verdict: 'never',
    hint: 'The answer exceeds the size limit.',
  },
  proxy_refused: {
    verdict: 'retry',
    hint: 'The proxy wants other credentials: correct user and password in HTTPS_PROXY or HTTP_PROXY, and restart worksync. It asks the proxy again after 5 minutes.',
  },
  address_blocked: {
    verdict: 'never',
    hint: 'The address lies in a blocked range; allow it in the configuration if it is yours.',
  },
  aborted: { verdict: 'retry', hint: 'The process is stopping.' },
  internal: {
    verdict: 'retry',
    hint: 'This is a fault of worksync: please report it with the log line.',
    exit: 1,
  },
} as const satisfies Record<string, Entry>;

export type ErrorCode = keyof typeof CODES;

/** Returns the remedy for a stored or received code; undefined if it is not in the registry. */
export function hintOf(code: string): string | undefined {
  return Object.hasOwn(CODES, code) ? CODES[code as ErrorCode].hint : undefined;
}

export interface ErrorDetails {
  readonly cause?: unknown;
  /** HTTP status of the answer, if there was one. For an answer of the workspace: the status of its `errorCode`. */
  readonly status?: number;
  /** The workspace itself answered with its error object, and not a proxy in between. */
  readonly own?: boolean;
  /** The server's own stable code (`errorCode` of the workspace API). */
  readonly errorCode?: string;
  /** How long the server requests to wait, milliseconds. */
  readonly retryAfter?: number;
  /** Replaces the registry's hint if a better remedy is known. */
  readonly hint?: string;
}

/**
 * A failure that a caller can act on: a stable code, a verdict, a hint, and the cause.
 * The constructor replaces the values of secrets in all texts, so that an error can be stored and shown.
 */
export class SyncError extends Error {
  override readonly name = 'SyncError';
  readonly code: ErrorCode;
  readonly verdict: Verdict;
  readonly hint: string;
  readonly status: number | undefined;
  readonly own: boolean;
  readonly errorCode: string | undefined;
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    const cause = causeWithoutSecrets(details.cause);
    super(withoutSecrets(message), cause === undefined ? undefined : { cause });
    this.code = code;
    this.verdict = CODES[code].verdict;
    this.hint = details.hint === undefined ? CODES[code].hint : withoutSecrets(details.hint);
    this.status = details.status;
    this.own = details.own ?? false;
    this.errorCode = details.errorCode === undefined ? undefined : withoutSecrets(details.errorCode);
    // Round up: it is stored as an integer timestamp.
    this.retryAfter = details.retryAfter === undefined ? undefined : Math.ceil(details.retryAfter);
  }
}

/**
 * Converts a thrown value to a SyncError.
 * Errors of the database carry a code of the registry (`platform/database/database-fault.ts`), and some codes of the
 * file system are translated. Everything else is a fault of worksync.
 */
export function asSyncError(thrown: unknown): SyncError {
  if (thrown instanceof SyncError) return thrown;
  const { code, hint } = (thrown ?? {}) as { code?: unknown; hint?: unknown };
  const known = thrown instanceof Error ? knownCode(code) : undefined;
  const details = { cause: thrown, hint: typeof hint === 'string' ? hint : undefined };
  return new SyncError(known ?? 'internal', textOf(thrown), details);
}

/** Whether a part of the request may have left this machine. Only these three codes exclude it. */
export function wasSent({ code }: Pick<SyncError, 'code'>): boolean {
  return code !== 'unreachable' && code !== 'address_blocked' && code !== 'proxy_refused';
}

/** Codes of the file system, from any operation that creates or writes a file. */
const FILE_SYSTEM_CODES: Readonly<Record<string, ErrorCode>> = {
  ENOSPC: 'disk_full',
  EDQUOT: 'disk_full',
  EROFS: 'data_folder_unusable',
  EACCES: 'data_folder_unusable',
};

function knownCode(code: unknown): ErrorCode | undefined {
  if (typeof code !== 'string') return undefined;
  if (Object.hasOwn(FILE_SYSTEM_CODES, code)) return FILE_SYSTEM_CODES[code];
  return Object.hasOwn(CODES, code) ? (code as ErrorCode) : undefined;
}

/** Never throws, although some objects cannot be converted to a text. */
function textOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  return typeof thrown === 'string' ? thrown : inspect(thrown, { depth: 0 });
}

/** Code, message and remedy of a failure, as it was stored. */
export interface StoredFailure {
  readonly code: string;
  readonly message: string;
  readonly hint: string | null;
}

/** Formats a failure for a row: `code: message`, followed by its remedy if that differs from the registry's. */
export function formatFailure({ code, message, hint }: Pick<SyncError, 'code' | 'message' | 'hint'>): string {
  const text = `${code}: ${message}`;
  return hint === CODES[code].hint ? text : `${text}${REMEDY}${hint}`;
}

const REMEDY = '\nremedy: ';

/** Parses a stored failure. A text without a code of the registry becomes the message of an `internal` failure. */
export function parseFailure(stored: string): StoredFailure {
  const [failure = '', hint] = stored.split(REMEDY, 2);
  const [, code = '', message = ''] = /^([a-z_]+): ?([\s\S]*)$/.exec(failure) ?? [];
  if (!Object.hasOwn(CODES, code)) return { code: 'internal', message: failure, hint: null };
  return { code, message, hint: hint ?? CODES[code as ErrorCode].hint };
}

/** Replaces the values of secrets in a text. */
type Scrub = (text: string) => string;

let scrub: Scrub = (text) => text;

/**
 * Scrubs each new error with this function, so that no secret reaches a database or an output, whatever a server
 * repeats. A process sets one function before it does anything else.
 */
export function cleanErrorsWith(next: Scrub): void {
  scrub = next;
}

/** Scrubs a foreign text. Call it before the text is cut, because the scrubber does not recognise half a secret. */
export function withoutSecrets(text: string): string {
  return scrub(text);
}

/** Causes below this depth are left out, because they are not scrubbed: such chains repeat themselves, or loop. */
const MAX_DEPTH = 5;

/** Returns the cause itself if it contains no secret, otherwise a scrubbed copy. */
function causeWithoutSecrets(cause: unknown, depth = 0): unknown {
  if (typeof cause === 'string') return scrub(cause);
  if (!(cause instanceof Error)) return cause;
  if (depth === MAX_DEPTH) return undefined;
  const inner = causeWithoutSecrets(cause.cause, depth + 1);
  const all = cause instanceof AggregateError ? cause.errors.map((error) => causeWithoutSecrets(error, depth + 1)) : [];
  const isSame =
    inner === cause.cause && all.every((error, index) => error === (cause as AggregateError).errors[index]);
  return isSame && !containsSecret(cause) ? cause : copyOf(cause, inner, all);
}

function containsSecret({ message, stack = '', name }: Error): boolean {
  return [message, stack, name].some((text) => scrub(text) !== text);
}

function copyOf(error: Error, cause: unknown, errors: readonly unknown[]): Error {
  const message = scrub(error.message);
  const details = cause === undefined ? {} : { cause };
  const copy =
    error instanceof AggregateError ? new AggregateError(errors, message, details) : new Error(message, details);
  const { code, stack } = error as Error & { code?: unknown };
  copy.name = scrub(error.name);
  if (stack !== undefined) copy.stack = scrub(stack);
  return Object.assign(copy, code === undefined ? {} : { code });
}
