/** Fields of a log line. Messages are static; what varies goes here. */
export type LogFields = Readonly<Record<string, unknown>>;

/** What every stage gets as its logger. pino fits it. */
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
