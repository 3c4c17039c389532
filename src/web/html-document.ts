import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Server, ServerReply } from '../platform/http/server.ts';
import { PROGRAM } from '../platform/lib/own-program.ts';
import { html, Markup } from './html.ts';

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

const TYPES = {
  'page.css': 'text/css; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
} as const;

export type AssetName = keyof typeof TYPES;

const NAMES = Object.keys(TYPES) as AssetName[];
const CONTENTS = new Map(NAMES.map((name) => [name, readFileSync(join(PROGRAM, 'src/web/assets', name))]));
/** Paths with a digest, so that a browser caches the file permanently and requests another one after an update. */
const PATHS = new Map(NAMES.map((name) => [name, `/assets/${hash('sha256', contentOf(name)).slice(0, 12)}/${name}`]));

function contentOf(name: AssetName): Buffer {
  return CONTENTS.get(name) as Buffer;
}

/** Returns the path of an asset. */
export function assetPath(name: AssetName): string {
  return PATHS.get(name) as string;
}

const A_YEAR = 31_536_000;

/** The style sheet, the script and the icon, for everybody: the page for logging in needs them too. */
export function assetRoutes(server: Server): void {
  server.get<{ Params: { digest: string; name: string } }>(
    '/assets/:digest/:name',
    { config: { access: 'public' } },
    (request, reply) => {
      const name = NAMES.find((each) => each === request.params.name);
      if (name === undefined || assetPath(name) !== request.url) return reply.callNotFound();
      return reply
        .header('cache-control', `public, max-age=${A_YEAR}, immutable`)
        .type(TYPES[name])
        .send(contentOf(name));
    },
  );
}
