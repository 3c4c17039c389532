import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { z } from 'zod';
import { listenLocally } from '../harness/listen.ts';

export type OtlpCollector = Awaited<ReturnType<typeof startOtlpCollector>>;

interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** An id of zeros is invalid. */
const id = (bytes: number) => z.string().regex(new RegExp(`^(?!0+$)[0-9a-f]{${bytes * 2}}$`));
const uint64 = z.string().regex(/^\d{1,20}$/);
const anyValue = z.union([
  z.strictObject({ stringValue: z.string().max(256) }),
  z.strictObject({ boolValue: z.boolean() }),
  z.strictObject({ intValue: z.string().regex(/^-?\d{1,19}$/) }),
  z.strictObject({ doubleValue: z.number() }),
]);
const attributes = z
  .array(z.strictObject({ key: z.string().min(1), value: anyValue }))
  .refine((list) => new Set(list.map(({ key }) => key)).size === list.length, 'keys must be unique');
const link = z.strictObject({ traceId: id(16), spanId: id(8) });
const span = z
  .strictObject({
    ...link.shape,
    parentSpanId: id(8).optional(),
    name: z.string().min(1),
    // SPAN_KIND_INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER.
    kind: z.int().min(1).max(5),
    startTimeUnixNano: uint64,
    endTimeUnixNano: uint64,
    attributes,
    links: z.array(link).max(128).optional(),
    droppedLinksCount: z.int().nonnegative().optional(),
    status: z.strictObject({ code: z.int().min(0).max(2), message: z.string().optional() }).optional(),
  })
  .refine(({ startTimeUnixNano: from, endTimeUnixNano: to }) => BigInt(from) <= BigInt(to), 'it ends before it starts');
const request = z.strictObject({
  resourceSpans: z
    .array(
      z.strictObject({
        resource: z.strictObject({
          attributes: attributes.refine((list) => list.some(({ key }) => key === 'service.name'), 'no service.name'),
        }),
        scopeSpans: z.array(
          z.strictObject({
            scope: z.strictObject({ name: z.string().min(1), version: z.string() }),
            spans: z.array(span).min(1),
          }),
        ),
      }),
    )
    .min(1),
});

export interface CollectedSpan extends Omit<z.infer<typeof span>, 'attributes'> {
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly resource: Readonly<Record<string, string | number | boolean>>;
}

function plain(list: z.infer<typeof attributes>): Record<string, string | number | boolean> {
  return Object.fromEntries(
    list.map(({ key, value }) => {
      const [[kind, content]] = Object.entries(value) as [[string, string | number | boolean]];
      return [key, kind === 'intValue' ? Number(content) : content];
    }),
  );
}

/**
 * Starts a collector of OTLP over HTTP with JSON, as strict as the schema is: a value that a collector would read as another one, or
 * not at all, is a fault here. `trace.proto`, `common.proto` and `resource.proto` of opentelemetry-proto 1; "JSON Protobuf Encoding" of
 * the specification for ids, enums and 64-bit integers.
 */
export async function startOtlpCollector() {
  const spans: CollectedSpan[] = [];
  const headers: IncomingMessage['headers'][] = [];
  const faults: string[] = [];
  const texts: string[] = [];
  const answers: Answer[] = [];

  function take(incoming: IncomingMessage, text: string): void {
    if (incoming.method !== 'POST' || incoming.url !== '/v1/traces') faults.push(`${incoming.method} ${incoming.url}`);
    if (incoming.headers['content-type'] !== 'application/json') faults.push('content-type');
    const read = request.safeParse(JSON.parse(text));
    if (!read.success) return void faults.push(z.prettifyError(read.error));
    for (const { resource, scopeSpans } of read.data.resourceSpans)
      for (const each of scopeSpans.flatMap((scope) => scope.spans))
        spans.push({ ...each, attributes: plain(each.attributes), resource: plain(resource.attributes) });
  }

  async function respond(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = (await buffer(incoming)).toString();
    texts.push(body);
    headers.push(incoming.headers);
    const answer = answers.shift() ?? { status: 200 };
    if (answer.status === 200) take(incoming, body);
    response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers });
    response.end(JSON.stringify(answer.body ?? {}));
  }

  const server = createServer((incoming, response) => {
    respond(incoming, response).catch((error: unknown) => faults.push(String(error)));
  });
  const url = await listenLocally(server);
  return {
    url,
    spans: spans as readonly CollectedSpan[],
    headers: headers as readonly IncomingMessage['headers'][],
    faults: faults as readonly string[],
    text: () => texts.join('\n'),
    /** Sets the answers to the next requests; later ones are accepted again. */
    answerNext: (...next: readonly Answer[]) => void answers.push(...next),
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
