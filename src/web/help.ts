import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { WARNINGS } from '../admin/status/verdict.ts';
import type { Server } from '../platform/http/server.ts';
import { PROGRAM } from '../platform/lib/own-program.ts';
import { html, type Markup } from './html.ts';
import { documentOf, sendPage } from './html-document.ts';

const WORKFLOW = 'workflow';

/** Address below `/help/` and file, relative to the program. They are in every installation: the package, the image. */
const PAGES: ReadonlyMap<string, string> = new Map([
  ['configuration', 'config/README.md'],
  ['connect-a-workspace', 'config/connect-a-workspace.md'],
  [WORKFLOW, 'config/workflow.md'],
  ['operating', 'config/operating.md'],
  ['deploying', 'config/deploy/README.md'],
  ['replicas', 'config/deploy/replicas.md'],
  ['reference', 'config/reference.md'],
  ['workspace-api', 'src/workspace-api/contract.md'],
  ['client', 'src/workspace-api/client/README.md'],
  ...readdirSync(join(PROGRAM, 'src/connectors'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'kit')
    .map(({ name }) => [`connector-${name}`, `src/connectors/${name}/README.md`] as const),
]);

const ADDRESSES: ReadonlyMap<string, string> = new Map([...PAGES].map(([name, file]) => [file, `/help/${name}`]));

/** Returns the address of the help for an error code, or for a problem in the status. */
export function helpOf(code: string): string {
  const problem = WARNINGS.find((each) => each.code === code);
  return problem === undefined ? `/help/reference#${code}` : `/help/operating#${problem.runbook.toLowerCase()}`;
}

export const HELP_OF_REASONS = `/help/${WORKFLOW}#if-a-task-does-not-move`;

/** The pages that come with the program, for everybody: they hold nothing of this installation. */
export function helpRoutes(server: Server): void {
  const rendered = new Map<string, Markup>();
  server.get('/help', { config: { access: 'public' } }, (_request, reply) => reply.redirect('/help/'));
  server.get('/help/', { config: { access: 'public' } }, (_request, reply) => sendPage(reply, CONTENTS));
  server.get<{ Params: { page: string } }>('/help/:page', { config: { access: 'public' } }, async (request, reply) => {
    const { page } = request.params;
    const file = PAGES.get(page);
    if (file === undefined) return reply.callNotFound();
    const made = rendered.get(page) ?? (await pageOf(file));
    rendered.set(page, made);
    return sendPage(reply, made);
  });
}

const CONTENTS = helpDocument(
  'Help – worksync',
  html`<h1>Help</h1>
<ul>${[...PAGES.keys()].map((name) => html`<li><a href="/help/${name}">${name.replaceAll('-', ' ')}</a></li>\n`)}</ul>`,
);

function helpDocument(title: string, body: Markup): Markup {
  return documentOf(
    title,
    html`<a class="skip" href="#main">Skip to content</a>
<header class="top"><a class="brand" href="/">worksync</a><a class="where" href="/help/">Help</a></header>
<main class="prose" id="main" tabindex="-1">${body}</main>`,
  );
}

async function pageOf(file: string): Promise<Markup> {
  const text = await readFile(join(PROGRAM, file), 'utf8');
  // Few people open it: the renderer is loaded when somebody does.
  const { renderMarkdown } = await import('./markdown.ts');
  const body = renderMarkdown(text, { linkOf: (href) => addressOf(file, href) });
  return helpDocument(`${file} – Help – worksync`, body);
}

/** A link of a page, as it leads from `/help/`; undefined where the target comes with the sources only. */
function addressOf(file: string, href: string): string | undefined {
  if (/^https?:\/\//.test(href) || href.startsWith('#')) return href;
  const [path = '', anchor] = href.split('#');
  const address = ADDRESSES.get(posix.join(posix.dirname(file), path));
  return address === undefined || anchor === undefined ? address : `${address}#${anchor}`;
}
