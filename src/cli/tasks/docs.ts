import { basename, extname } from 'node:path';
import type { Command } from 'commander';
import { SyncError } from '../../model/errors.ts';
import { ownProxies } from '../../platform/config/daemon-options.ts';
import { printable } from '../../platform/lib/text.ts';
import { DOCUMENT_STATUSES, DOCUMENT_TYPES } from '../../workspace-api/contract/field-values.ts';
import type { Answered, Parameters, Routes } from '../../workspace-api/contract.ts';
import { type AddCommands, eachOf, oneOf } from '../command.ts';
import { addShorthands, type Shorthand } from '../shorthand.ts';
import { jsonOf, readBytes, withText } from '../text-input.ts';
import { runOnWorkspace, type WorkspaceFlags, workspaceCommand } from '../workspace-command.ts';

type Document = Answered<Routes['getDocument']>;
type Operations = Parameters<Routes['patchDocument']>['body']['ops'];

const ROWS: readonly Shorthand[] = [
  {
    usage: 'list',
    description: 'list documents without their content, newest first',
    example: 'docs list --task BUG-12 --status draft',
    operation: 'listDocuments',
    options: (command) =>
      command
        .option('--title <text>', 'only where the title contains this, in any case')
        .option('--type <type>', 'requirement or task; may be repeated', eachOf(DOCUMENT_TYPES))
        .option('--status <status>', 'draft or completed; may be repeated', eachOf(DOCUMENT_STATUSES))
        .option('--task <task>', 'only those attached to this task (key or id; a key costs one request more)')
        .option('--creator <id>', 'only those that this user created')
        .option('--updater <id>', 'only those that this user changed last'),
    fields: { task: 'taskId', creator: 'createdByUserId', updater: 'updatedByUserId' },
    list: {
      name: 'documents',
      columns: ({ documentId, type, status, title }: Document) => [documentId, type, status, printable(title)],
    },
  },
  {
    usage: 'get <document>',
    description: 'print the content of a document as it is; with --json all of it',
    example: 'docs get doc_PGZ3mGcBdhAhrUcC > plan.md',
    operation: 'getDocument',
    fields: { document: 'documentId' },
    show: (document: Document) => ({ text: document.content, json: [document], asIs: !process.stdout.isTTY }),
  },
  {
    usage: 'create <title>',
    description: 'create a document; not idempotent: repeating the command creates another one',
    example: 'docs create "Login plan" --content-file plan.md --task BUG-12',
    operation: 'createDocument',
    options: (command) =>
      withText(command, 'content')
        .option('--type <type>', 'requirement or task', oneOf(DOCUMENT_TYPES))
        .option('--status <status>', 'draft or completed', oneOf(DOCUMENT_STATUSES))
        .option('--task <task>', 'attach it to this task (key or id)'),
    fields: { contentFile: 'content', task: 'taskId' },
    show: ({ documentId }: Document) => `created ${documentId}`,
  },
  {
    usage: 'put <document>',
    description: 'replace title and content of a document, and its status where one is given',
    example: 'docs put doc_PGZ3mGcBdhAhrUcC --title "Login plan" --content-file plan.md',
    operation: 'replaceDocument',
    options: (command) =>
      withText(command, 'content')
        .requiredOption('--title <text>', 'the title')
        .option('--status <status>', 'draft or completed', oneOf(DOCUMENT_STATUSES)),
    fields: { contentFile: 'content', document: 'documentId' },
    prepare: (fields) => {
      if (fields['content'] === undefined) throw usage('give the whole content: --content or --content-file');
      return fields;
    },
    show: ({ documentId }: Document) => `replaced ${documentId}`,
  },
  {
    usage: 'patch <document>',
    description: 'edit parts of a content: all operations or none; each target text must occur exactly once',
    example:
      'docs patch doc_PGZ3mGcBdhAhrUcC --replace "draft 1" --with "draft 2" --after "# Plan" --insert "New line"',
    operation: 'patchDocument',
    options: withOperations,
    fields: { document: 'documentId' },
    send: (client, { documentId, opsFile: ops }: { readonly documentId: string; readonly opsFile: Operations }) =>
      client.patchDocument({ documentId, body: { ops } }, {}),
    show: ({ documentId }: Document) => `changed ${documentId}`,
  },
  {
    usage: 'attach <task> <document>',
    description: 'attach a document to a task; one that is attached to another task moves here',
    example: 'docs attach BUG-12 doc_PGZ3mGcBdhAhrUcC',
    operation: 'attachDocument',
    fields: { task: 'taskId', document: 'documentId' },
    show: ({ documentId }: Document, _fields, status) =>
      `${status === 201 ? 'attached' : 'already attached'}  ${documentId}`,
  },
];

export const addDocs: AddCommands = (program, setting) => {
  const group = program
    .command('docs')
    .description("the workspace's documents: list, get, create, put, patch, attach")
    .exitOverride();
  addShorthands(group, ROWS, setting);
};

const FLAGS = {
  replace: 'text to replace; --with follows',
  with: 'the replacement',
  delete: 'text to delete',
  before: 'text before which to insert; --insert follows',
  after: 'text after which to insert; --insert follows',
  insert: 'text to insert',
};

/** The kind of an operation, the field of its text, and the flag that must follow with the field of its text. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  replace: ['replace_text', 'target', 'with', 'replacement'],
  delete: ['delete_text', 'target'],
  before: ['insert_before', 'anchor', 'insert', 'text'],
  after: ['insert_after', 'anchor', 'insert', 'text'],
};

const HELP = `
The command applies operations in the order in which you give them: --replace OLD --with NEW, --delete TEXT,
--before PLACE --insert TEXT, --after PLACE --insert TEXT; each may be repeated. --ops-file takes them as JSON instead:
[{"kind": "replace_text", "target": "OLD", "replacement": "NEW"}, {"kind": "delete_text", "target": "TEXT"},
 {"kind": "insert_before", "anchor": "PLACE", "text": "TEXT"}, {"kind": "insert_after", "anchor": "PLACE", "text": "TEXT"}]`;

/** Adds the flags that name text operations (W49). `opsFile` of a parsed command line is their list. */
function withOperations(command: Command): void {
  const parts: (readonly [flag: string, text: string])[] = [];
  for (const [flag, description] of Object.entries(FLAGS))
    command.option(`--${flag} <text>`, description, (text: string) => parts.push([flag, text]));
  command
    .option('--ops-file <file>', 'a JSON file with the operations; - reads standard input')
    .addHelpText('after', HELP)
    .hook('preAction', () => {
      const file = command.getOptionValue('opsFile') as string | undefined;
      if ((file === undefined) === (parts.length === 0)) throw usage('give operations as flags, or --ops-file');
      command.setOptionValue('opsFile', file === undefined ? operationsOf(parts) : readOperations(file));
    });
}

/** Pairs each place with the text that follows it. Throws `usage`. */
function operationsOf(parts: readonly (readonly [flag: string, text: string])[]): Operations {
  const operations: object[] = [];
  for (let at = 0; at < parts.length; at++) {
    const [flag, text] = parts[at]!;
    const [kind, field = '', next, nextField = ''] = KINDS[flag] ?? [];
    if (!kind) throw usage(`--${flag} has nothing to apply to: it follows --replace, --before or --after`);
    const [following, followingText] = (next && parts[++at]) || [];
    if (following !== next) throw usage(`--${flag} needs --${next} right after it`);
    operations.push({ kind, [field]: text, ...(next && { [nextField]: followingText }) });
  }
  return operations as Operations;
}

/** A list, or an object with the list as `ops`. What it holds is checked by the workspace. Throws `usage`. */
function readOperations(file: string): Operations {
  const value = jsonOf(`@${file}`);
  const list = Array.isArray(value) ? value : (value as { ops?: unknown } | null)?.ops;
  if (!Array.isArray(list)) throw usage(`${file} contains no list of operations`);
  return list as Operations;
}

function usage(message: string): SyncError {
  return new SyncError('usage', message);
}

type Ticket = Answered<Routes['createUploadUrl']>;

export const addFiles: AddCommands = (program, setting) => {
  const group = program.command('files').description('images and videos: upload').exitOverride();
  workspaceCommand(group, {
    usage: 'upload <file>',
    description: 'upload an image or a video, and print the address to use in descriptions and documents',
    example: 'files upload screenshot.png',
    help: '\nThe command sends one request to the workspace. The upload itself goes to a signed address and uses no quota.',
  })
    .option('--name <name>', 'its name in the workspace (default: the name of the file)')
    .option('--content-type <type>', 'image/* or video/* (default: by the file extension)')
    .action((file: string, flags: WorkspaceFlags & { name?: string; contentType?: string }) => {
      const bytes = readBytes(file);
      const filename = flags.name ?? basename(file);
      const contentType = flags.contentType ?? typeOf(filename);
      return runOnWorkspace(setting, flags, async ({ client }) => {
        const ticket = (await client.createUploadUrl({ body: { filename, contentType, size: bytes.length } }, {})).body;
        await upload(ticket, bytes);
        const { assetUrl } = ticket;
        return { text: assetUrl, json: [{ assetUrl, filename, contentType, size: bytes.length }] };
      });
    });
};

const TYPES: Readonly<Record<string, string>> = {
  '.apng': 'image/apng',
  '.avif': 'image/avif',
  '.gif': 'image/gif',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.mov': 'video/quicktime',
  '.mp4': 'video/mp4',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.webm': 'video/webm',
  '.webp': 'image/webp',
};

function typeOf(filename: string): string {
  const type = TYPES[extname(filename).toLowerCase()];
  if (type !== undefined) return type;
  throw new SyncError('usage', `the extension of ${filename} names no known type`, {
    hint: 'Give the type with --content-type',
  });
}

/** 100 MB over a slow line, milliseconds. */
const PATIENCE = 900_000;

/** The signed address is its own credential: no bearer is sent along. */
async function upload({ uploadUrl, method, headers }: Ticket, bytes: Buffer): Promise<void> {
  if (!/^https?:/.test(uploadUrl)) throw new SyncError('answer_malformed', 'the upload address is not http');
  const timeouts = { headers: PATIENCE, body: PATIENCE, total: PATIENCE };
  const { createHttpClient } = await import('../../platform/http/http-client.ts');
  const http = createHttpClient({ timeouts, proxies: ownProxies(() => undefined) });
  try {
    const verb = method === 'POST' ? 'POST' : 'PUT';
    const { status } = await http.request({ method: verb, url: uploadUrl, headers, body: bytes, target: 'upload' });
    if (status < 200 || status > 299)
      throw new SyncError('refused', `the upload was answered with ${status}`, { status });
  } finally {
    await http.close();
  }
}
