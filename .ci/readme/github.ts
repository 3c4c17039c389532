import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { TOP } from '../supply/lock.ts';

const FIXTURES = join(TOP, 'src/connectors/github/fixtures');
const REPOSITORY = /^\/(?:repos\/acme\/api|repositories\/70100)(\/pulls)?$/;

/** GitHub's recorded answers on loopback, for the option `apiUrl`. Its only repository is `acme/api`. */
export interface RecordedGithub {
  readonly url: string;
  close(): void;
}

/** @param count number of open pull requests: copies of the recorded one */
export async function startRecordedGithub(count: number): Promise<RecordedGithub> {
  const [recorded] = (readRecorded('pulls.list') as Pull[]).filter(({ state }) => state === 'open');
  if (!recorded) throw new Error('pulls.list.json has no open pull request');
  const open = Array.from({ length: count }, (_, index) => ({ ...recorded, number: 100 + index }));
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1');
    const [isRepository, list] = REPOSITORY.exec(pathname) ?? [];
    if (list) sendPage(response, open, searchParams);
    else if (isRepository) send(response, 200, recorded.base.repo);
    else if (pathname === '/user') send(response, 200, recorded.user);
    else send(response, 404, { message: 'Not Found' });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

interface Pull {
  readonly number: number;
  readonly state: string;
  readonly user: object;
  readonly head: object;
  readonly base: { readonly repo: object };
}

function readRecorded(name: string): unknown {
  return JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), 'utf8'));
}

function sendPage(response: ServerResponse, open: readonly Pull[], query: URLSearchParams): void {
  const perPage = Number(query.get('per_page') ?? 30);
  const page = Number(query.get('page') ?? 1);
  const last = Math.ceil(open.length / perPage);
  const linkTo = (rel: string, to: number) => {
    const linked = new URLSearchParams({ ...Object.fromEntries(query), page: String(to) });
    return `<https://api.github.com/repositories/70100/pulls?${linked.toString()}>; rel="${rel}"`;
  };
  const links = [
    ...(page > 1 ? [linkTo('prev', page - 1), linkTo('first', 1)] : []),
    ...(page < last ? [linkTo('next', page + 1), linkTo('last', last)] : []),
  ];
  if (links.length > 0) response.setHeader('link', links.join(', '));
  send(response, 200, open.slice((page - 1) * perPage, page * perPage));
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** Sends the recorded webhook of an opened pull request, with another branch. Throws unless the daemon takes it. */
export async function sendOpenedPull(address: string, secret: string, branch: string): Promise<void> {
  const recorded = readRecorded('pull_request.opened') as { readonly pull_request: Pull };
  const pull = recorded.pull_request;
  const payload = { ...recorded, pull_request: { ...pull, head: { ...pull.head, ref: branch } } };
  const body = JSON.stringify(payload);
  const response = await fetch(address, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'pull_request',
      'x-github-delivery': crypto.randomUUID(),
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    },
    body,
  });
  if (response.status !== 202) throw new Error(`${address} answered the webhook with ${response.status}`);
}
