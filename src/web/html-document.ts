import { hash } from 'node:crypto';
import type { ServerReply } from '../http/server.ts';
import { html, Markup } from './html.ts';
import { STYLE } from './style.ts';

/** Constant text that a browser reads raw: the policy names the hash of exactly these characters. */
const STYLE_ELEMENT = new Markup(`<style>${STYLE}</style>`);
const STYLE_HASH = hash('sha256', STYLE, 'base64');

/** The one style sheet, and forms that go to ourselves; no script, no picture, nothing from elsewhere. */
const POLICY = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'`;

/** What all pages share. */
export function documentOf(title: string, body: Markup, head: Markup | null = null): Markup {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${head}
<title>${title}</title>
${STYLE_ELEMENT}
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
