import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { listenLocally } from '../harness/listen.ts';

interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly event: ReturnType<JSON['parse']>;
}

export async function startWebhookReceiver() {
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
    /** Ends without a slash. */
    url,
    received: received as readonly Received[],
    count: async (number: number): Promise<readonly Received[]> => {
      if (received.length < number)
        await new Promise<void>((resolve) => {
          waiting.push({ number, resolve });
        });
      return received;
    },
    /** Sets the statuses of the next answers; the last one stays. `silent` answers nothing. */
    answer(...statuses: (number | 'silent')[]) {
      answers = statuses;
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
