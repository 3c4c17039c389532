import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createNodeMiddleware, Webhooks } from '@octokit/webhooks';
import { SECRET } from '../deliveries.ts';

/** The package's own middleware on Node's own server, with a handler that does nothing. Nothing is stored. */
const webhooks = new Webhooks({ secret: SECRET });
webhooks.on('pull_request', () => {});
const middleware = createNodeMiddleware(webhooks, { path: '/webhooks' });
const server = createServer((request, response) => void middleware(request, response));
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.once('disconnect', () => process.exit());
