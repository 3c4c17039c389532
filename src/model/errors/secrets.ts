/** Replaces the values of secrets in a text. */
export type Clean = (text: string) => string;

let clean: Clean = (text) => text;

/**
 * Cleans every error from now on, when it is made: so neither a database nor an output ever gets one with a secret in it,
 * whatever the server repeated. A process has one such function, set before it does anything else.
 */
export function cleanErrorsWith(next: Clean): void {
  clean = next;
}

/** For a foreign text that is shortened before it becomes part of an error: the scrubber does not find half a secret. */
export function withoutSecrets(text: string): string {
  return clean(text);
}

/** Deeper chains repeat themselves, or loop. What lies deeper is left out, since nobody has looked at it. */
const DEEPEST = 5;

/** The same cause where it holds no secret, else a copy without. */
export function causeWithoutSecrets(cause: unknown, depth = 0): unknown {
  if (typeof cause === 'string') return clean(cause);
  if (!(cause instanceof Error)) return cause;
  if (depth === DEEPEST) return undefined;
  const inner = causeWithoutSecrets(cause.cause, depth + 1);
  const all = cause instanceof AggregateError ? cause.errors.map((each) => causeWithoutSecrets(each, depth + 1)) : [];
  const isSame = inner === cause.cause && all.every((each, at) => each === (cause as AggregateError).errors[at]);
  return isSame && !holdsSecret(cause) ? cause : copyOf(cause, inner, all);
}

function holdsSecret({ message, stack = '', name }: Error): boolean {
  return [message, stack, name].some((text) => clean(text) !== text);
}

function copyOf(error: Error, cause: unknown, errors: readonly unknown[]): Error {
  const message = clean(error.message);
  const details = cause === undefined ? {} : { cause };
  const copy =
    error instanceof AggregateError ? new AggregateError(errors, message, details) : new Error(message, details);
  const { code, stack } = error as Error & { code?: unknown };
  copy.name = clean(error.name);
  if (stack !== undefined) copy.stack = clean(stack);
  return Object.assign(copy, code === undefined ? {} : { code });
}
