import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { freePort } from '../harness/listen.ts';
import { type Running, startProgram } from '../harness/processes.ts';

const NGINX = process.env['NGINX'] ?? '/usr/sbin/nginx';

/** Why a test that needs nginx is left out; undefined where it is installed. */
export const WITHOUT_NGINX = existsSync(NGINX)
  ? undefined
  : `left out: there is no nginx at ${NGINX} (apt-get install nginx, or NGINX=<path>)`;

export interface Nginx {
  readonly address: string;
  readonly running: Running;
}

/**
 * Starts the nginx of this machine, with a folder of its own, on a free port.
 *
 * @param folder exists, and may be written to
 * @param server what stands in its one `server` block, for example `location / { proxy_pass http://127.0.0.1:8080; }`
 */
export async function startNginx(folder: string, server: string): Promise<Nginx> {
  const port = await freePort();
  const own = join(folder, 'nginx');
  mkdirSync(own);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${join(own, kind)};`,
  );
  const config = `
    daemon off;
    ${process.getuid?.() === 0 ? 'user root;' : ''}
    pid ${join(own, 'pid')};
    error_log ${join(own, 'error.log')};
    events { worker_connections 4096; }
    http {
      access_log off;
      ${temporary.join('\n      ')}
      server { listen 127.0.0.1:${port}; ${server} }
    }`;
  writeFileSync(join(own, 'nginx.conf'), config);
  const running = startProgram(NGINX, ['-p', own, '-c', join(own, 'nginx.conf'), '-e', join(own, 'error.log')]);
  const ended = running.ended.then(({ stderr }) => {
    throw new Error(`nginx ended: ${stderr}`);
  });
  await Promise.race([listens(port), ended]);
  return { address: `http://127.0.0.1:${port}`, running };
}

async function listens(port: number): Promise<void> {
  for (;;) {
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
      socket.on('connect', () => socket.destroy());
    });
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
