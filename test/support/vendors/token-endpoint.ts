import type { HttpAnswer, HttpClient, HttpRequest } from '../../../src/platform/http/http-client.ts';
import type { Clock } from '../../../src/platform/lib/clock.ts';

/**
 * The token endpoint of a vendor that rotates refresh tokens: each is taken once, and again within the leeway. One that comes
 * later was stolen, as far as the vendor can tell: the whole grant then ends.
 */
export interface TokenEndpoint {
  readonly http: HttpClient;
  /** A token that a consent brings; the grant begins anew. */
  consent(): string;
  /** Whether an access token is good now. */
  isGood(access: string): boolean;
  /** Every refresh token that was sent, in order. */
  readonly asked: string[];
  /** Faults of the next requests: an answer without a token, or an answer that is lost on its way back. */
  readonly trouble: (Partial<HttpAnswer> | 'lost')[];
}

export function createTokenEndpoint(clock: Clock, { leeway, life }: { leeway: number; life: number }): TokenEndpoint {
  let count = 0;
  let family = 0;
  /** By refresh token: when it was first spent. */
  const issued = new Map<string, { family: number; spentAt?: number }>();
  const good = new Map<string, { family: number; until: number }>();
  const asked: string[] = [];
  const trouble: TokenEndpoint['trouble'] = [];

  const answer = (status: number, body: object): HttpAnswer => ({
    status,
    headers: {},
    body: Buffer.from(JSON.stringify(body)),
  });
  const issue = () => {
    const refresh = `refresh-token-${++count}`;
    issued.set(refresh, { family });
    return refresh;
  };

  function spend(refresh: string): HttpAnswer {
    const known = issued.get(refresh);
    const isReuse = known?.spentAt !== undefined && clock.monotonic() - known.spentAt > leeway;
    if (isReuse && known.family === family) family++;
    if (!known || known.family !== family) return answer(403, { error: 'invalid_grant' });
    known.spentAt ??= clock.monotonic();
    const access = `access-token-${count + 1}`;
    good.set(access, { family, until: clock.monotonic() + life });
    return answer(200, { access_token: access, refresh_token: issue(), expires_in: life / 1_000, scope: 'read' });
  }

  return {
    asked,
    trouble,
    consent() {
      family++;
      return issue();
    },
    isGood(access) {
      const known = good.get(access);
      return known !== undefined && known.family === family && clock.monotonic() < known.until;
    },
    http: {
      async request({ body, headers }: HttpRequest) {
        const text = String(body);
        const isForm = headers?.['content-type'] === 'application/x-www-form-urlencoded';
        const sent = (isForm ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text)) as {
          readonly refresh_token: string;
        };
        asked.push(sent.refresh_token);
        const next = trouble.shift();
        if (next === undefined) return spend(sent.refresh_token);
        if (next !== 'lost') return { ...answer(500, {}), ...next };
        spend(sent.refresh_token);
        throw new Error('the process is no more');
      },
      close: async () => undefined,
    },
  };
}
