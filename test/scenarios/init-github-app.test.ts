import { readFileSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeEach, expect, it } from 'vitest';
import { makeApp } from '../../src/cli/installation/init.ts';
import { createHttpClient } from '../../src/platform/http/http-client.ts';
import { createMetrics } from '../../src/platform/observe/metrics.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { listenLocally } from '../support/harness/listen.ts';

const PEM = '-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n';

interface Manifest {
  readonly redirect_url: string;
  readonly hook_attributes?: { readonly url: string };
}

interface StandIn {
  readonly origin: string;
  /** Path and manifest of what was confirmed. */
  readonly confirmed: { readonly path: string; readonly manifest: Manifest }[];
  readonly exchanged: string[];
  close(): void;
}

async function startStandIn(): Promise<StandIn> {
  const confirmed: StandIn['confirmed'] = [];
  const exchanged: string[] = [];
  const codes = new Map<string, Manifest>();
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? '', 'http://x');
    const body = await text(request);
    if (url.pathname.endsWith('/settings/apps/new')) {
      const manifest = JSON.parse(new URLSearchParams(body).get('manifest') ?? '') as Manifest;
      confirmed.push({ path: url.pathname, manifest });
      const code = `code-${confirmed.length}`;
      codes.set(code, manifest);
      const back = `${manifest.redirect_url}?code=${code}&state=${url.searchParams.get('state')}`;
      return response.writeHead(302, { location: back }).end();
    }
    const code = /^\/app-manifests\/([^/]+)\/conversions$/.exec(url.pathname)?.[1] ?? '';
    exchanged.push(code);
    const manifest = codes.get(code);
    if (!codes.delete(code)) return response.writeHead(404).end('{"message":"Not Found"}');
    const app = { id: 123, slug: 'worksync-acme', html_url: 'https://github.com/apps/worksync-acme', pem: PEM };
    const secret = manifest?.hook_attributes ? 'a-webhook-secret-of-github' : null;
    return response.writeHead(201).end(JSON.stringify({ ...app, webhook_secret: secret }));
  };
  const server = createServer((request, response) => void answer(request, response));
  const origin = await listenLocally(server);
  return { origin, confirmed, exchanged, close: () => void server.close() };
}

let github: StandIn;
const http = createHttpClient({ meter: createMetrics({ version: 'test' }).meter });
let scratch = '';

beforeEach(async () => {
  github = await startStandIn();
  scratch = folderOfTest('app');
});
afterEach(() => github.close());
afterAll(() => http.close());

function make(wanted: Partial<Parameters<typeof makeApp>[0]>, tell: (url: string) => unknown) {
  const standard = { appName: 'worksync', name: 'team', connection: 'main', folder: scratch, timeout: 3_600_000 };
  const site = { origin: github.origin, api: github.origin, http, now: Date.now };
  return makeApp({ ...standard, ...wanted }, site, tell);
}

const ENTITIES: Readonly<Record<string, string>> = { '&quot;': '"', '&amp;': '&', '&lt;': '<', '&gt;': '>' };
const plain = (value = '') => value.replace(/&(?:quot|amp|lt|gt);/g, (entity) => ENTITIES[entity] as string);

/** Opens the page, presses its button, and confirms. @returns where GitHub leads the browser */
async function confirm(page: string): Promise<string> {
  const answer = await fetch(page);
  expect(answer.headers.get('content-security-policy')).toContain(`form-action ${github.origin}`);
  const shown = await answer.text();
  const action = plain(/action="([^"]+)"/.exec(shown)?.[1]);
  const manifest = plain(/name="manifest" value="([^"]+)"/.exec(shown)?.[1]);
  const posted = await fetch(action, { method: 'POST', body: new URLSearchParams({ manifest }), redirect: 'manual' });
  return posted.headers.get('location') ?? '';
}

it('writes id, key and secret to files of this user alone, and says where to install the App', async () => {
  let done: Promise<string> | undefined;
  const made = await make({ organization: 'acme', publicUrl: 'https://sync.example.com/', issues: true }, (page) => {
    done = confirm(page).then(async (back) => (await fetch(back)).text());
  });
  expect(await done).toContain('Done');
  expect(made).toEqual({
    installUrl: 'https://github.com/apps/worksync-acme/installations/new',
    variables: {
      GITHUB_APP_ID_FILE: join(scratch, 'github-app.id'),
      GITHUB_PRIVATE_KEY_FILE: join(scratch, 'github-app.pem'),
      GITHUB_WEBHOOK_SECRET_FILE: join(scratch, 'github-app.webhook-secret'),
    },
  });
  const contents = Object.values(made.variables).map((path) => [
    statSync(path).mode & 0o777,
    readFileSync(path, 'utf8'),
  ]);
  expect(contents).toEqual([
    [0o600, '123\n'],
    [0o600, PEM],
    [0o600, 'a-webhook-secret-of-github\n'],
  ]);
  expect(github.confirmed).toMatchObject([
    {
      path: '/organizations/acme/settings/apps/new',
      manifest: {
        public: false,
        hook_attributes: { url: 'https://sync.example.com/webhooks/team/main' },
        default_permissions: { metadata: 'read', pull_requests: 'read', issues: 'read' },
      },
    },
  ]);
});

it('takes no code that another site brings, and none under another name of this machine', async () => {
  const statuses: number[] = [];
  const made = await make({}, async (page) => {
    for (const query of ['code=stolen', 'code=stolen&state=', 'code=stolen&state=guess', 'state=guess'])
      statuses.push((await fetch(`${page}created?${query}`)).status);
    const { port } = new URL(page);
    const rebound = await http.request({ method: 'GET', url: `http://localhost:${port}/`, target: 'page' });
    statuses.push(rebound.status);
    await fetch(await confirm(page));
  });
  expect(statuses).toEqual([400, 400, 400, 400, 404]);
  expect(github.exchanged).toEqual(['code-1']);
  expect(Object.keys(made.variables)).toEqual(['GITHUB_APP_ID_FILE', 'GITHUB_PRIVATE_KEY_FILE']);
  expect(github.confirmed[0]?.manifest.hook_attributes).toBeUndefined();
});
