import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';

/** A forward proxy as companies run it: it tunnels for those who know the password. */
export interface ConnectProxy {
  /** Without credentials. */
  readonly origin: string;
  /** `http://user:password@host:port`. */
  readonly address: string;
  /** Targets of CONNECT, as `host:port`; those that were refused too. */
  readonly asked: string[];
  /** Answers each CONNECT with this status in place of opening a tunnel. */
  answerWith(status: number | undefined): void;
  close(): Promise<void>;
}

export interface ConnectProxyOptions {
  readonly user?: string;
  readonly password?: string;
  /** Where the tunnels lead in place of their targets: names of tests resolve nowhere. */
  readonly leadTo?: (target: string) => { readonly host: string; readonly port: number };
}

export async function startConnectProxy(options: ConnectProxyOptions = {}): Promise<ConnectProxy> {
  const { user = 'worksync', password = 'pass word/1', leadTo = addressOf } = options;
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
    asked,
    answerWith(next) {
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
