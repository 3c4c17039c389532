import { hash } from 'node:crypto';
import { type Behaviour, type Call, type Reply, refusal, type Site } from './exchange.ts';

/** Changes refusals with an error object; what a test or a proxy answers in place of the service stays. */
function onRefusal(change: (reply: Reply) => Reply): () => Behaviour {
  return () => ({
    async answer(call, next) {
      const reply = await next(call);
      const isOwn = typeof reply.body === 'object' && reply.body !== null && 'message' in reply.body;
      return reply.status >= 400 && isOwn ? change(reply) : reply;
    },
  });
}

type ErrorObject = { readonly code: number; readonly message: string; readonly errorCode: string };

export const withoutErrorCode = onRefusal((reply) => {
  const { errorCode: _, ...body } = reply.body as ErrorObject;
  return { ...reply, body };
});

export const htmlRefusals = onRefusal(({ status, headers }) => ({
  status,
  headers: { ...headers, 'content-type': 'text/html' },
  body: `<html><head><title>${status}</title></head><body><h1>${status}</h1><hr>proxy</body></html>`,
}));

export const messageOnly = onRefusal((reply) => ({ ...reply, body: { message: (reply.body as ErrorObject).message } }));

export const otherStatus = (from: number, to: number, errorCode: string) =>
  onRefusal((reply) => (reply.status === from ? refusal(to, errorCode, (reply.body as ErrorObject).message) : reply));

interface Limits {
  readonly burst?: number;
  /** Windows begin at full quarters of an hour and full minutes. */
  readonly isFixed?: boolean;
  readonly countsRefused?: boolean;
  readonly hasHint?: boolean;
}

const QUARTER = 15 * 60_000;
const MINUTE = 60_000;

/** Counts in place of the service, whose own quota must be off. */
export function limited({ burst = 40, isFixed = false, countsRefused = false, hasHint = true }: Limits) {
  return ({ clock }: Site): Behaviour => {
    let times: number[] = [];
    const waitFor = (now: number, span: number, most: number) => {
      const start = isFixed ? Math.floor(now / span) * span : now - span;
      const within = times.filter((time) => (isFixed ? time >= start : time > start));
      if (within.length < most) return 0;
      return (isFixed ? start : within[within.length - most]!) + span - now;
    };
    return {
      async answer(call, next) {
        const now = clock.now();
        times = times.filter((time) => time > now - QUARTER);
        const wait = Math.max(waitFor(now, QUARTER, 200), waitFor(now, MINUTE, burst));
        if (wait === 0 || countsRefused) times.push(now);
        if (wait === 0) return next(call);
        const seconds = Math.max(1, Math.ceil(wait / 1_000));
        if (!hasHint) return refusal(429, 'rate_limit_exceeded', 'rate limit exceeded');
        const message = `standard rate limit exceeded, retry in ${seconds} seconds`;
        return { ...refusal(429, 'rate_limit_exceeded', message), headers: { 'retry-after': String(seconds) } };
      },
    };
  };
}

/** Answers conditional reads; `undefined`: there are none. */
function conditional(etagOf: ((body: unknown) => string) | undefined): () => Behaviour {
  return () => ({
    async answer(call, next) {
      if (call.method !== 'GET') return next(call);
      const { 'if-none-match': condition, ...headers } = call.headers;
      const reply = await next({ ...call, headers });
      if (reply.status !== 200) return reply;
      const { etag: _, ...others } = reply.headers;
      if (etagOf === undefined) return { ...reply, headers: others };
      const etag = etagOf(reply.body);
      if (condition === etag) return { status: 304, headers: { ...others, etag } };
      return { ...reply, headers: { ...others, etag } };
    },
  });
}

export const ownEtags = conditional((body) => `"${hash('sha1', JSON.stringify(body), 'base64url')}"`);
export const noEtags = conditional(undefined);
export const constantEtag = conditional(() => '"constant"');

const VERSION = 'x-service-api-version';

/** Wants the version under another name, and refuses requests without it. */
export const otherVersionHeader = (): Behaviour => ({
  async answer(call, next) {
    const { 'x-one-api-version': version, [VERSION]: _, ...headers } = call.headers;
    if (version !== '2') return refusal(400, 'unsupported_api_version', 'X-One-Api-Version: 2 is required');
    return next({ ...call, headers });
  },
});

export const ignoredVersion = (): Behaviour => ({
  answer(call: Call, next) {
    const { [VERSION]: _, ...headers } = call.headers;
    return next({ ...call, headers });
  },
});
