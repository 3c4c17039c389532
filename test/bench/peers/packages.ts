import BetterSqlite from 'better-sqlite3';
import fastify from 'fastify';
import { pino } from 'pino';
import { Agent } from 'undici';

/** The packages that worksync is built on, and one route that reads a row. */
const database = new BetterSqlite(':memory:');
const agent = new Agent();
const server = fastify({ loggerInstance: pino({ level: 'silent' }) });
server.get('/readyz', () => database.prepare('select 1 as ready').get());
process.once('SIGTERM', () => {
  void Promise.all([server.close(), agent.close()]).then(() => database.close());
});
await server.listen({ host: '127.0.0.1', port: Number(process.env['WORKSYNC_PORT']) });
