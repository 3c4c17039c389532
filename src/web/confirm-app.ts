import { SyncError } from '../model/errors.ts';
import { createServer, type ServerReply } from '../platform/http/server.ts';
import { isSameSecret } from '../platform/lib/digest.ts';
import { html, type Markup } from './html.ts';

/** The request that a person confirms on the page. */
export interface Confirmation {
  readonly title: string;
  /** The target of the form and its hidden field, once the return address is known. */
  form(backUrl: string): { readonly action: string; readonly manifest: string };
  /** Returned by the browser, so that no other site can send a code of its own. */
  readonly state: string;
  take(code: string): Promise<void>;
}

/**
 * Serves one page on loopback with one button, which leads to a vendor, and the address to which the vendor returns. `taken` resolves
 * when `take` has, and rejects with its error.
 */
export async function openConfirmPage(confirmation: Confirmation) {
  const server = createServer();
  const { promise: taken, resolve, reject } = Promise.withResolvers<void>();
  let isTaken = false;
  server.addHook('onRequest', async (request) => {
    // Another name that points here would let its site read the page.
    if (request.headers.host !== new URL(url).host) throw new SyncError('not_found', 'there is no such page');
  });
  server.setErrorHandler((_error, _request, reply) => sendPage(reply.code(404), said('Not found', 'Nothing is here.')));
  server.get('/', (_request, reply) => {
    const { action, manifest } = confirmation.form(`${url}created`);
    return sendPage(reply, confirmPage(confirmation.title, action, manifest), new URL(action).origin);
  });
  server.get('/created', async (request, reply) => {
    const { code, state } = request.query as { code?: unknown; state?: unknown };
    if (typeof code !== 'string' || typeof state !== 'string' || !isSameSecret(state, confirmation.state))
      return sendPage(
        reply.code(400),
        said('Refused', 'This answer does not belong to the page that worksync opened.'),
      );
    if (isTaken) return sendPage(reply.code(409), said('Done already', 'The code was taken before.'));
    isTaken = true;
    try {
      await confirmation.take(code);
    } catch (error) {
      reject(error);
      return sendPage(reply.code(502), said('Failed', 'worksync says on the terminal what went wrong.'));
    }
    reply.raw.once('close', resolve);
    return sendPage(reply, said('Done', 'worksync says on the terminal what comes next. You may close this page.'));
  });
  const url = `${await server.listen({ host: '127.0.0.1', port: 0 })}/`;
  return { url, taken, close: () => server.close() };
}

function sendPage(reply: ServerReply, page: Markup, formTarget = "'none'"): ServerReply {
  const policy = `default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action ${formTarget}`;
  return reply
    .headers({ 'content-security-policy': policy, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
    .type('text/html; charset=utf-8')
    .send(page.text);
}

function confirmPage(title: string, action: string, manifest: string): Markup {
  return documentOf(
    title,
    html`<p>The button leads to ${new URL(action).host}, which shows what is made, and asks you to confirm it.</p>
<form method="post" action="${action}"><input type="hidden" name="manifest" value="${manifest}">
<button autofocus>${title}</button></form>
<details><summary>What is sent</summary><pre>${JSON.stringify(JSON.parse(manifest), null, 2)}</pre></details>`,
  );
}

function said(title: string, text: string): Markup {
  return documentOf(title, html`<p>${text}</p>`);
}

function documentOf(title: string, body: Markup): Markup {
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>${title} – worksync</title></head>
<body><main><h1>${title}</h1>
${body}
</main></body></html>
`;
}
