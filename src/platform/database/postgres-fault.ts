import { DatabaseFault, type FaultHints, type FaultKind } from './database-fault.ts';

/** The first characters of SQLSTATE, the longest first: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const STATES: readonly (readonly [state: string, kind: FaultKind])[] = [
  ['53100', 'full'],
  // Out of memory, a lock or a deadlock, a statement that took too long, an idle transaction.
  ['53200', 'busy'],
  ['55P03', 'busy'],
  ['40001', 'busy'],
  ['40P01', 'busy'],
  ['57014', 'busy'],
  ['25P03', 'busy'],
  // The server shuts down or starts, has no connection left, or is a standby that accepts no writes.
  ['57P', 'away'],
  ['53300', 'away'],
  ['25006', 'away'],
  ['08', 'away'],
  ['28', 'denied'],
  ['42501', 'denied'],
  ['3D000', 'denied'],
  ['58', 'failed'],
  ['XX001', 'corrupt'],
  ['XX002', 'corrupt'],
];

const NETWORK =
  /^(ECONN|EPIPE|EHOST|ENET|ENOTFOUND|EAI_|ETIMEDOUT|ENOENT|CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/;
/** The pool's error if each of its connections is in use, for example by slow reads. The server is still there. */
const POOL_IN_USE = 'timeout exceeded when trying to connect';
/** The error of `pg` for a statement without an answer in time. */
const NO_ANSWER = 'Query read timeout';
/** The errors of `pg` without a code of the server or the system. */
const CLIENT = /timeout|terminated|Client has encountered|not queryable|closed|does not support SSL/i;

const HINTS: FaultHints = {
  full: 'Free space on the volume of PostgreSQL; work resumes by itself.',
  denied:
    'PostgreSQL refuses it: look at user and password in the address, at the rights of the role in its schema, and at pg_hba.conf.',
  failed: 'PostgreSQL cannot read or write its files: look at its log. worksync resumes by itself when it can.',
  busy: 'A statement took too long, another transaction holds a lock, PostgreSQL is short of memory, or another version of worksync has just changed a table: see the cause, then try again.',
  corrupt: 'PostgreSQL found its own files damaged: look at its log, and restore a backup of it.',
};

/**
 * Whether another version has changed a table that a prepared statement reads. The statement fails on its connection until it is
 * prepared under another name.
 */
export function isStalePlan(error: unknown): boolean {
  const { code = '', message = '' } = error as { code?: string; message?: string };
  return code === '0A000' && message.startsWith('cached plan');
}

/** Whether the server rolled a transaction back because of a deadlock: the other transaction continues. */
export function isDeadlock(error: unknown): boolean {
  return error instanceof DatabaseFault && (error.cause as { code?: string } | undefined)?.code === DEADLOCK;
}

const DEADLOCK = '40P01';

/**
 * Gives a read without an answer in time the code of a statement that the server cancelled. A slow read does not prove that the
 * server is away: the next write or connection shows it.
 */
export function asSlowRead(error: unknown): unknown {
  const { code = '', message = '' } = error as { code?: string; message?: string };
  return code === '' && message === NO_ANSWER ? Object.assign(error as Error, { code: QUERY_CANCELED }) : error;
}

const QUERY_CANCELED = '57014';

/** Returns the fault that an error of the server, or of the network, shows; undefined if it shows none. */
export function postgresFaultOf(error: unknown, place: string): DatabaseFault | undefined {
  if (error instanceof DatabaseFault) return error;
  const { code = '', message = '', errors } = error as { code?: string; message?: string; errors?: readonly unknown[] };
  const kind = isStalePlan(error) ? 'busy' : kindOf(code, message);
  // With several addresses, each has its own failure, and the error has no message.
  const reason = message || errors?.map((each) => (each as Error).message).join('; ') || 'no answer';
  return kind && new DatabaseFault(kind, place, code ? `${reason} (${code})` : reason, error, HINTS);
}

function kindOf(code: string, message: string): FaultKind | undefined {
  const [, kind] = STATES.find(([state]) => code.startsWith(state)) ?? [];
  if (kind) return kind;
  if (message === POOL_IN_USE) return 'busy';
  return NETWORK.test(code) || (code === '' && CLIENT.test(message)) ? 'away' : undefined;
}
