import { afterEach, expect, it } from 'vitest';
import { traceSettings } from '../../src/platform/config/trace-export.ts';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import { type LogFields, type Logger, silentLogger } from '../../src/platform/lib/telemetry.ts';
import { mergingRepeats } from '../../src/platform/observe/pino-logger.ts';
import { type CollectedSpan, type OtlpCollector, startOtlpCollector } from '../support/fakes/otlp-collector.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { createWorld, WEBHOOK_SECRET, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

let world: World;
let collector: OtlpCollector;
afterEach(async () => {
  await world.close();
  await collector.close();
});

async function open(setting: { isTraced?: boolean; propagates?: boolean } & Partial<WorldOptions> = {}) {
  collector = await startOtlpCollector();
  const { isTraced = true, propagates = false, ...others } = setting;
  const options = { data: '', port: 0, host: '', logLevel: 'silent', otlpEndpoint: collector.url } as const;
  const { traces } = traceSettings({ ...options, otlpTraceparent: propagates }, {});
  world = await createWorld({ traces: isTraced ? traces : undefined, ...others });
}

const SECRET_BODY = 'It fixes BUG-1. A text that belongs to nobody else.';
let second = 0;

async function edit(setting: Parameters<typeof pullEvent>[0], id: string, headers = {}): Promise<void> {
  const updated = new Date(Date.UTC(2026, 0, 5, 8, 0, ++second)).toISOString();
  expect(
    await world.deliver('pull_request', pullEvent({ body: SECRET_BODY, ...setting, updated }), { id, headers }),
  ).toBe(202);
}

const newBug = () => world.people.createBug({ body: { title: 'It breaks' } }, {});
/** Spans gather for a second; then they are on their way. */
async function exported(): Promise<void> {
  await world.clock.advance(1_000);
  await world.until(() => true);
}

const named = (name: string) => collector.spans.filter((span) => span.name === name);

async function collected(condition: () => boolean): Promise<void> {
  await world.until(condition);
  expect(collector.faults).toEqual([]);
}

function oneOf(spans: readonly CollectedSpan[]): CollectedSpan {
  expect(spans).toHaveLength(1);
  return spans[0] as CollectedSpan;
}

it('a webhook, its decision and its requests are one trace', async () => {
  await open();
  await newBug();
  await edit({ title: 'A title' }, 'the-delivery');
  await world.settled();
  const ofDelivery = () => collector.spans.filter((span) => span.traceId === named('receive')[0]?.traceId);
  await collected(() => ofDelivery().filter(({ name }) => name === 'settle').length >= 2);

  const receive = oneOf(named('receive'));
  expect(receive).toMatchObject({
    kind: 2,
    attributes: {
      ...{ 'http.request.method': 'POST', 'http.response.status_code': 202, 'worksync.workspace': 'test' },
      ...{ 'worksync.connection': 'github', 'worksync.delivery.stored': 'new' },
    },
    resource: { 'service.name': 'worksync', 'service.version': 'test' },
  });
  expect(receive.parentSpanId).toBeUndefined();
  const decision = oneOf(ofDelivery().filter(({ name }) => name === 'reconcile'));
  expect(decision).toMatchObject({
    parentSpanId: receive.spanId,
    kind: 1,
    attributes: { 'worksync.delivery.state': 'applied', 'worksync.items': 'github:github.com:5001:pull:1' },
  });
  const requests = ofDelivery().filter(({ name }) => name === 'request');
  expect(new Set(requests.map(({ attributes }) => attributes['worksync.action']))).toEqual(
    new Set(['add-link', 'record-pull-request']),
  );
  expect(requests).toHaveLength(2);
  for (const request of requests) {
    expect(request).toMatchObject({ parentSpanId: decision.spanId, attributes: { 'worksync.outcome': 'answered' } });
    const parts = ofDelivery().filter(({ parentSpanId }) => parentSpanId === request.spanId);
    expect(parts.map(({ name }) => name)).toEqual(['wait for slot', 'send', 'settle']);
  }
  const record = named('send').find(({ attributes }) => attributes['worksync.action'] === 'record-pull-request');
  expect(record).toMatchObject({ kind: 3, attributes: { 'http.response.status_code': 201, 'worksync.attempt': 1 } });
  expect(ofDelivery()).toHaveLength(2 + requests.length * 4);
  for (const hidden of [SECRET_BODY, 'A title', 'It breaks', WEBHOOK_SECRET])
    expect(collector.text()).not.toContain(hidden);
});

it('what the sender says of traces is ignored, and the workspace is told of ours only where that is asked for', async () => {
  const sent: (string | undefined)[] = [];
  const listening = (http: HttpClient): HttpClient => ({
    ...http,
    request(request) {
      if (request.target === 'workspace') sent.push(request.headers?.['traceparent']);
      return http.request(request);
    },
  });
  await open({ http: listening });
  await world.settled();
  expect(sent.length).toBeGreaterThan(0);
  expect(sent.filter((value) => value !== undefined)).toEqual([]);
  await world.close();
  await collector.close();

  sent.length = 0;
  await open({ http: listening, propagates: true });
  const theirs = '4bf92f3577b34da6a3ce929d0e0e4736';
  await edit({ title: 'Door' }, 'a', { traceparent: `00-${theirs}-00f067aa0ba902b7-00` });
  await world.settled();
  await exported();
  expect(named('receive')).toHaveLength(1);
  expect(collector.text()).not.toContain(theirs);
  const sends = named('send').map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`);
  expect(sends.length).toBeGreaterThan(1);
  expect(new Set(sent)).toEqual(new Set(sends));
  expect(sent).toHaveLength(sends.length);
});

it('a collector that is away costs one warning and counted spans, and no delivery', async () => {
  const told: LogFields[] = [];
  const recording: Logger = {
    ...silentLogger,
    child: () => recording,
    warn: (fields, message) => void told.push({ ...fields, message }),
  };
  await open({ logger: mergingRepeats(recording, createTravellingClock()) });
  collector.answerNext(...Array.from({ length: 50 }, () => ({ status: 400, body: { message: 'no' } })));
  await edit({ title: 'Door' }, 'a');
  await world.settled();
  await exported();
  await edit({ title: 'Gate' }, 'b');
  await world.settled();
  await exported();
  expect(collector.spans).toEqual([]);
  expect(collector.headers.length).toBeGreaterThan(1);
  expect(told).toEqual([
    { message: 'traces could not be exported', code: 'server_failed', reason: 'the collector answered 400' },
  ]);
  expect(await world.metrics()).toMatch(/^worksync_spans_dropped_total\{reason="not_exported"\} [1-9]/m);
  expect((await world.service().statistics()).pullRequests).toBe(1);
});
