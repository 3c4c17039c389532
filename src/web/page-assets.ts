import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Server } from '../platform/http/server.ts';
import { PROGRAM } from '../platform/lib/program-folder.ts';

const TYPES = {
  'page.css': 'text/css; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
} as const;

export type AssetName = keyof typeof TYPES;

const NAMES = Object.keys(TYPES) as AssetName[];
const CONTENTS = new Map(NAMES.map((name) => [name, readFileSync(join(PROGRAM, 'src/web/assets', name))]));
/** With a digest in it: a browser keeps the file for good, and asks for another one after an update. */
const PATHS = new Map(NAMES.map((name) => [name, `/assets/${hash('sha256', contentOf(name)).slice(0, 12)}/${name}`]));

function contentOf(name: AssetName): Buffer {
  return CONTENTS.get(name) as Buffer;
}

/** Where a page finds it. */
export function assetPath(name: AssetName): string {
  return PATHS.get(name) as string;
}

const A_YEAR = 31_536_000;

/** The style sheet, the script and the icon, for everybody: the page for logging in needs them too. */
export function assetRoutes(server: Server): void {
  server.get<{ Params: { digest: string; name: string } }>(
    '/assets/:digest/:name',
    { config: { door: 'public' } },
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
