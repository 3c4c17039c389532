import { asTyped, OWN_COMMAND } from '../../platform/lib/own-program.ts';
import { html, type Markup } from '../html.ts';
import { documentOf } from '../html-document.ts';

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
