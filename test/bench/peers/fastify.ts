import fastify from 'fastify';

/**
 * A bare Fastify: no credentials, no database, no validation. It answers the bytes that its parent tells it, for a
 * read as for a write, whose JSON body it parses.
 */
process.once('message', (settings: { answer: string }) => void serve(settings));
process.once('disconnect', () => process.exit());

async function serve({ answer }: { answer: string }): Promise<void> {
  const server = fastify({ logger: false });
  const type = 'application/json; charset=utf-8';
  server.get('/*', (_request, reply) => reply.header('content-type', type).send(answer));
  server.post('/*', (_request, reply) => reply.code(201).header('content-type', type).send(answer));
  const port = Number(new URL(await server.listen({ host: '127.0.0.1', port: 0 })).port);
  process.send?.({ port });
}
