/** Placeholder types until the client is written; the shape is agreed. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD';
  /** Absolute; built from configured origins and ids, never from a payload. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
  /** Largest answer accepted, bytes. */
  readonly largestAnswer?: number;
  /** What metrics call the other side: `workspace`, or the connection's name. */
  readonly target: string;
}

export interface HttpAnswer {
  readonly status: number;
  /** Names in lower case; a repeated header is joined with `, `. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface HttpClient {
  /**
   * Sends one request and returns the answer whatever its status. Redirects are not followed.
   * Throws `unreachable` where it is certain that the request was not sent, `outcome_unknown` where it is not,
   * `address_blocked`, `answer_too_large`, `aborted`.
   */
  request(request: HttpRequest): Promise<HttpAnswer>;
  close(): Promise<void>;
}
