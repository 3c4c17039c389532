import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { listenLocally } from '../harness/listen.ts';

interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The body, parsed. */
  readonly event: ReturnType<JSON['parse']>;
}

export interface WebhookReceiver {
  /** Ends without a slash. */
  readonly url: string;
  readonly received: readonly Received[];
  /** Resolves once this many requests have come. */
  count(number: number): Promise<readonly Received[]>;
  /** Status of the next answers; the last one stays. `silent` answers nothing. */
  answer(...statuses: (number | 'silent')[]): void;
  close(): Promise<void>;
}

/** Listens on a free loopback port and keeps all it gets; answers 204 unless told. */
export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const received: Received[] = [];
  const waiting: { number: number; resolve: () => void }[] = [];
  let answers: (number | 'silent')[] = [204];
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await buffer(request);
    received.push({ path: request.url ?? '', headers: request.headers, body, event: JSON.parse(body.toString()) });
    const status = answers.length > 1 ? answers.shift()! : answers[0]!;
    for (const one of waiting) if (received.length >= one.number) one.resolve();
    if (status === 'silent') return;
    response.writeHead(status, { location: `${url}/elsewhere` }).end();
  };
  const server = createServer((request, response) => void take(request, response));
  const url = await listenLocally(server);
  return {
    url,
    received,
    count: async (number) => {
      if (received.length < number)
        await new Promise<void>((resolve) => {
          waiting.push({ number, resolve });
        });
      return received;
    },
    answer(...statuses) {
      answers = statuses;
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
