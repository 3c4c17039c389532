import { SyncError } from '../../model/errors/sync-error.ts';

/** Deeper chains of causes repeat themselves, or loop. */
const DEEPEST = 5;

/**
 * An error as fields of a log line: code, verdict, hint and the chain of causes. The stack is kept only where the fault
 * may be ours. What is not an error passes through.
 */
export function describeError(thrown: unknown, depth = 0): unknown {
  if (!(thrown instanceof Error)) return thrown;
  if (depth === DEEPEST) return { message: thrown.message };
  const error = thrown as Error & { code?: unknown };
  return {
    ...(thrown instanceof SyncError ? known(thrown) : { name: error.name, code: error.code, message: error.message }),
    ...(isOurs(thrown) ? { stack: thrown.stack } : {}),
    ...(thrown instanceof AggregateError
      ? { errors: thrown.errors.slice(0, DEEPEST).map((each) => describeError(each, DEEPEST)) }
      : {}),
    ...(thrown.cause === undefined ? {} : { cause: describeError(thrown.cause, depth + 1) }),
  };
}

function known(error: SyncError): Record<string, unknown> {
  const { code, message, verdict, hint, status, errorCode, retryAfter } = error;
  return { code, message, verdict, hint, status, errorCode, retryAfter };
}

/** A SyncError other than `internal` names its remedy, and an error with a code was made by the system. */
function isOurs(error: Error): boolean {
  if (error instanceof SyncError) return error.code === 'internal';
  return (error as { code?: unknown }).code === undefined;
}
