import { asTyped, OWN_COMMAND } from '../../platform/lib/own-program.ts';
import { html, type Markup } from '../html.ts';
import { documentOf } from '../html-document.ts';

/** Why a caller is refused: a stable code, the status, and what to do about it. */
export const REFUSALS = {
  unauthorized: {
    status: 401,
    message:
      'This needs a credential: send "Authorization: Bearer <token>" with the admin token or a read token. To log a browser in, open the link that "worksync login" prints.',
  },
  no_gateway_token: {
    status: 401,
    message:
      'This needs a gateway token: send "Authorization: Bearer <token>". "worksync gateway token create --description <purpose>" makes one.',
  },
  no_replica: {
    status: 401,
    message: 'Only another replica of this installation may ask this, and its signature must be right.',
  },
  too_many: {
    status: 429,
    message:
      'Too many wrong tokens came from this address. Try again later; a link of "worksync login" works meanwhile.',
  },
  read_only: { status: 403, message: 'This credential may read only. To change something, use the admin token.' },
  limited: {
    status: 403,
    message: 'This credential is limited to some workspaces, and this request concerns another.',
  },
  foreign_host: {
    status: 403,
    message:
      'The daemon does not know the name it was asked under. If the name is yours, give it with --allowed-hosts; programs send a token.',
  },
  foreign_origin: {
    status: 403,
    message:
      'This does not come from a page of this daemon (Origin and Host differ). Behind a proxy that ends TLS, name the proxy with --trusted-proxies and let it pass Host and X-Forwarded-Proto on.',
  },
  insecure: {
    status: 403,
    message:
      'Others could read your credential: this connection is plain HTTP from another machine. Open the pages over HTTPS, with the proxy named by --trusted-proxies, or on this machine. Where the network is safe, start the daemon with --insecure-pages.',
  },
  stale_page: { status: 403, message: 'The page is out of date. Reload it and repeat what you did.' },
  spent_link: {
    status: 401,
    message: 'This link was used already, or is older than ten minutes. "worksync login" prints a new one.',
  },
  wrong_token: { status: 401, message: 'There is no such token.' },
  unsupported_type: {
    status: 415,
    message: 'The body has the wrong type: send application/json.',
  },
} as const satisfies Record<string, { readonly status: number; readonly message: string }>;

export type Refusal = keyof typeof REFUSALS;

/** The form for a token, for people without a link. */
export function loginPage(problem?: string): Markup {
  return documentOf(
    'Log in – worksync',
    html`<main class="login card">
<h1>Log in to worksync</h1>
${problemOf(problem)}
<p>On the machine of the daemon, run <code>${OWN_COMMAND} login</code> and open the link that it prints.
Or log in with the admin token or a read token:</p>
<form method="post" action="/login">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Log in</button>
</form>
</main>`,
  );
}

/** Opening a link does not use it up: programs that check links open it too. */
export function linkPage(link: string): Markup {
  return documentOf(
    'Log in – worksync',
    html`<main class="login card">
<h1>Log in to worksync</h1>
<p>This link logs this browser in. It works once.</p>
<form method="post" action="/login">
<input name="link" type="hidden" value="${link}">
<button type="submit" autofocus>Log in</button>
</form>
</main>`,
  );
}

export function refusalPage(problem: string): Markup {
  return documentOf(
    'Refused – worksync',
    html`<main class="login card">
<h1>worksync</h1>
${problemOf(problem)}
<p><a href="/">To the status page</a></p>
</main>`,
  );
}

/** Leaves out the places of data and configuration, because everybody may read this page. */
function problemOf(problem: string | undefined): Markup | null {
  return problem === undefined
    ? null
    : html`<div class="banner bad" role="alert"><p>${asTyped(problem, OWN_COMMAND, [])}</p></div>`;
}
