import { connect, createServer, type Socket } from 'node:net';
import { sessionsEnded } from './server-sessions.ts';

/** The way to a server of one process, which can be cut at any moment, as it is when the process or its machine dies. */
export async function openGate(address: string) {
  const url = new URL(address);
  const [host, port] = [url.hostname, Number(url.port)];
  const sockets = new Set<Socket>();
  /** As the server names who is connected. */
  const ports: number[] = [];
  const server = createServer((inner) => {
    const outer = connect({ host, port });
    outer.once('connect', () => void ports.push(outer.localPort as number));
    const both = [inner, outer];
    for (const socket of both) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        for (const each of both) {
          sockets.delete(each);
          each.destroy();
        }
      });
    }
    inner.pipe(outer);
    outer.pipe(inner);
  });
  server.unref();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as { port: number }).port);
  return {
    address: url.href,
    /** At once: what the server has heard it does, and nobody hears of it. Nothing goes through any more. */
    cut() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
    /** Resolves when the server has ended all that it did for this process: what was not committed is gone, and no lock is held. */
    gone: () => sessionsEnded(address, 'client_port', ports),
  };
}
