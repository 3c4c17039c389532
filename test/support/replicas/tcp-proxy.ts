import { createServer, connect as dial, type Socket } from 'node:net';

/** The network between a process and its server, which a test cuts and mends. */
export interface TcpProxy {
  readonly port: number;
  /** Nothing passes any more and nobody is told; what is on its way waits. New connections get no answer. */
  cut(): void;
  /** What waited passes, late. */
  mend(): void;
  /** New connections go there; those there are end. */
  lead(port: number): void;
  close(): Promise<void>;
}

export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  /** Accepted while the line was cut. */
  const waiting = new Set<Socket>();
  let to = target;
  let isCut = false;

  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (near) => {
    near.on('error', () => undefined);
    if (!isCut) return join(near);
    waiting.add(near);
    near.once('close', () => waiting.delete(near));
  });

  function join(near: Socket): void {
    const far = dial({ port: to, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    const pair = [near, far] as const;
    pairs.add(pair);
    for (const [one, other] of [pair, [far, near] as const]) {
      one.on('error', () => other.destroy());
      one.on('close', () => {
        pairs.delete(pair);
        other.destroy();
      });
      one.on('data', (bytes) => void other.write(bytes));
      one.on('end', () => void other.end());
    }
    near.setNoDelay(true);
    near.resume();
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as { port: number }).port,
    cut() {
      isCut = true;
      for (const socket of [...pairs].flat()) socket.pause();
    },
    mend() {
      isCut = false;
      for (const socket of [...pairs].flat()) socket.resume();
      for (const near of waiting) join(near);
      waiting.clear();
    },
    lead(port) {
      to = port;
      for (const socket of [...pairs].flat()) socket.destroy();
    },
    async close() {
      for (const socket of [...[...pairs].flat(), ...waiting]) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
