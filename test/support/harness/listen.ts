import { type AddressInfo, createServer, type Server } from 'node:net';

export async function listenLocally(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  const { port } = new URL(await listenLocally(server));
  await new Promise((resolve) => server.close(resolve));
  return Number(port);
}
