import { readFileSync } from 'node:fs';
import nock from 'nock';
import { afterAll, afterEach, beforeAll } from 'vitest';
import type { Connection } from '../../src/connectors/connector.ts';
import { github } from '../../src/connectors/github/index.ts';
import { createInlineConverter } from '../../src/convert/converter.ts';
import { readingAside } from '../../src/convert/reading-aside.ts';
import { createHttpClient } from '../../src/http/http-client.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import { silentMeter } from '../../src/lib/meter.ts';
import { noSteps } from '../../src/lib/steps.ts';
import { createTravellingClock } from './travelling-clock.ts';
import { documentedOnly } from './vendor-requests/index.ts';

const API = 'https://api.github.com';
export const { signal } = new AbortController();

/** A written exchange: `GET /path?query` and what is answered. */
export interface Exchange {
  readonly request: string;
  /** What the request must carry. */
  readonly sent?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly status?: number;
  readonly answer?: unknown;
  readonly answerHeaders?: Readonly<Record<string, string>>;
}

/** Answers with exactly these exchanges, in any order; what is asked beside them or left over fails the test. */
export function useGithub() {
  const http = documentedOnly(createHttpClient({ steps: noSteps, meter: silentMeter }));
  const unexpected: string[] = [];
  const note = (request: { method?: string; path?: string }) => unexpected.push(`${request.method} ${request.path}`);
  beforeAll(() => {
    nock.disableNetConnect();
    nock.emitter.on('no match', note);
  });
  afterEach(() => {
    const unused = nock.pendingMocks();
    const surprises = unexpected.splice(0);
    nock.cleanAll();
    if (unused.length + surprises.length > 0) throw new Error(JSON.stringify({ unused, surprises }));
  });
  afterAll(async () => {
    nock.emitter.off('no match', note);
    nock.enableNetConnect();
    nock.restore();
    await http.close();
  });
  return {
    connect(given: Record<string, unknown> = {}) {
      const clock = createTravellingClock();
      const options = github.options.parse({ token: 'ghp_x', repositories: ['acme/api'], ...given });
      const deps = { http: readingAside(http, createInlineConverter([])), clock, logger: silentLogger };
      const connection = github.connect(options, deps) as Required<Connection>;
      return { clock, options, connection };
    },
    script(exchanges: readonly Exchange[]) {
      for (const exchange of exchanges) answerOnce(exchange);
    },
  };
}

function answerOnce({ request, sent, headers, status = 200, answer = '', answerHeaders = {} }: Exchange): void {
  const [method, target] = request.split(' ') as [string, string];
  const url = new URL(target, API);
  nock(API, { reqheaders: { ...headers } })
    .intercept(url.pathname, method, sent === undefined ? undefined : (body) => equal(body, sent))
    .query(Object.fromEntries(url.searchParams))
    .reply(status, answer as nock.Body, answerHeaders);
}

/** In nock a matcher is loose about what an object lacks. */
function equal(left: unknown, right: unknown): boolean {
  const order = (value: unknown): unknown =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(
          Object.entries(value)
            .toSorted(([a], [b]) => a.localeCompare(b))
            .map(([key, part]) => [key, order(part)]),
        )
      : value;
  return JSON.stringify(order(left)) === JSON.stringify(order(right));
}

export function linkTo(target: string, rel = 'next'): Record<string, string> {
  return { link: `<${API}${target}>; rel="${rel}"` };
}

export function fixture(name: string): Record<string, unknown> {
  const file = new URL(`../../src/connectors/github/fixtures/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
}
