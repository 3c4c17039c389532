import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';

/**
 * Starts a forward proxy as companies run it: it tunnels for those who know the password.
 *
 * @param leadTo returns the address to which a tunnel leads in place of its target, because names of tests resolve nowhere
 */
export async function startConnectProxy({
  user = 'worksync',
  password = 'pass word/1',
  leadTo = addressOf as (target: string) => { readonly host: string; readonly port: number },
} = {}) {
  const asked: string[] = [];
  const sockets = new Set<Socket>();
  let status: number | undefined;
  const server = createServer((_request, response) => void response.writeHead(405).end());
  const expected = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  });
  server.on('connect', ({ url = '', headers }: IncomingMessage, socket: Socket) => {
    asked.push(url);
    if (headers['proxy-authorization'] !== expected) return refuse(socket, 407);
    if (status !== undefined) return refuse(socket, status);
    const target = connect(leadTo(url), () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.pipe(target).pipe(socket);
    });
    sockets.add(target);
    target.on('close', () => {
      sockets.delete(target);
      socket.destroy();
    });
    target.on('error', () => refuse(socket, 502));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const credentials = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`;
  return {
    origin: `http://127.0.0.1:${port}`,
    address: `http://${credentials}@127.0.0.1:${port}`,
    /** Targets of CONNECT, as `host:port`, refused ones included. */
    asked,
    /** Answers each CONNECT with this status in place of opening a tunnel. */
    answerWith(next: number | undefined) {
      status = next;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function addressOf(target: string) {
  const { hostname, port } = new URL(`http://${target}`);
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80) };
}

function refuse(socket: Socket, status: number): void {
  const challenge = status === 407 ? 'proxy-authenticate: Basic realm="proxy"\r\n' : '';
  socket.end(`HTTP/1.1 ${status} Refused\r\n${challenge}content-length: 0\r\n\r\n`);
}
