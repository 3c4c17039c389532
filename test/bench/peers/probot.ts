import { generateKeyPairSync } from 'node:crypto';
import { pino } from 'pino';
import { Probot, Server } from 'probot';
import { SECRET } from '../deliveries.ts';

/** Probot's own server, with a handler that does nothing. Nothing is stored, and nothing is logged. */
const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});
const server = new Server({
  Probot: Probot.defaults({ appId: 1, privateKey, secret: SECRET }),
  log: pino({ level: 'silent' }),
  webhookPath: '/webhooks',
  host: '127.0.0.1',
  // As text: the number 0 would be taken as not given.
  port: '0' as unknown as number,
});
await server.load((app) => {
  app.on('pull_request', () => {});
});
await server.start();
process.send?.({ port: server.port });
process.once('disconnect', () => process.exit());
