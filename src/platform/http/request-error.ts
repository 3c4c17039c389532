/** A request that is refused before it reaches its handler. The connection ends with the answer. */
export class RequestError extends Error {
  readonly statusCode: number;

  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

/** There was no room or no time for it: the sender should repeat it. */
export function crowdedOut(isSuspect: boolean): RequestError {
  return new RequestError(isSuspect ? 429 : 503, 'too many deliveries are coming in');
}
