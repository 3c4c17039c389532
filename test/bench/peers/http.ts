import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Node's own server alone: every request gets the bytes and headers that its parent tells it. */
process.once('message', ({ answer, headers }: { answer: string; headers: Record<string, string> }) => {
  const body = Buffer.from(answer);
  const server = createServer((_request, response) => {
    response.writeHead(200, { ...headers, 'content-length': body.length });
    response.end(body);
  });
  server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
});
process.once('disconnect', () => process.exit());
