import type { ServerReply } from '../platform/http/server.ts';
import { html, Markup } from './html.ts';
import { assetPath } from './page-assets.ts';

/** Apart: the compiler of the package takes a literal end of a script for one of its own page, and calls a helper that nobody installs. */
const SCRIPT = new Markup('script');

/** Our own style sheet, script, icon, events and forms; nothing inline, nothing from elsewhere. */
const POLICY =
  "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/** @param at when it was made, epoch milliseconds: the script tells times by it */
export function documentOf(title: string, body: Markup, at: number | null = null): Markup {
  return html`<!doctype html>
<html lang="en"${at === null ? null : html` data-at="${new Date(at).toISOString()}"`}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" type="image/svg+xml" href="${assetPath('icon.svg')}">
<link rel="stylesheet" href="${assetPath('page.css')}">
<script src="${assetPath('page.js')}" defer></${SCRIPT}>
</head>
<body>
${body}
</body>
</html>
`;
}

export function sendPage(reply: ServerReply, page: Markup): ServerReply {
  return reply.header('content-security-policy', POLICY).type('text/html; charset=utf-8').send(page.text);
}
