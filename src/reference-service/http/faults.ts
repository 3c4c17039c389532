/** A request on its way to the service, before any of it was read. */
interface ArrivingRequest {
  readonly method: string;
  /** Path and query as received. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

interface LeavingAnswer {
  readonly status: number;
  readonly body: string;
}

/** A fault instead: the connection is cut, or another answer is given. */
export type Fault = 'cut' | { readonly status: number; readonly body?: string };

/**
 * The network between client and service, for tests. A hook may wait (a delay), and may return a fault instead. `before` acts on
 * the way in: nothing has been counted, checked or applied. `after` acts on the way out: the effects of the request are
 * committed.
 */
export interface Faults {
  before?(request: ArrivingRequest): Promise<Fault | undefined>;
  after?(request: ArrivingRequest, answer: LeavingAnswer): Promise<Fault | undefined>;
}
