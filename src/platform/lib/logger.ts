/** Fields of a log line. Messages are static; variable parts are fields. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The logger of every stage, which pino implements. */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  child(fields: LogFields): Logger;
}

export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
};

/** Logs the changes of repeated work: when it begins to fail, when the reason changes, and when it succeeds again. */
export function createTransitionLogger(
  logger: Logger,
  level: 'warn' | 'error',
  { failed, again }: { readonly failed: string; readonly again: string },
) {
  let logged: string | undefined;
  return {
    failed(error: unknown) {
      const reason = String(error);
      if (reason === logged) return;
      logged = reason;
      logger[level]({ error }, failed);
    },
    succeeded() {
      if (logged !== undefined) logger.info({}, again);
      logged = undefined;
    },
  };
}
