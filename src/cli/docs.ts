import type { Command } from 'commander';
import { SyncError } from '../model/errors/sync-error.ts';
import { DOCUMENT_STATUSES, DOCUMENT_TYPES } from '../workspace-api/contract/field-values.ts';
import type { Answered, Parameters, Routes } from '../workspace-api/contract.ts';
import { withOperations } from './document-operations.ts';
import { type Exit, eachOf, oneOf, type Setting } from './setting.ts';
import { taskIdOf } from './tasks.ts';
import { textOf, withText } from './text-input.ts';
import { printable, table } from './words.ts';
import {
  type ListFlags,
  listCommand,
  readPages,
  runOnWorkspace,
  type WorkspaceFlags,
  workspaceCommand,
} from './workspace-command.ts';

type Listed = Answered<Routes['listDocuments']>['documents'][number];
type DocumentQuery = NonNullable<Parameters<Routes['listDocuments']>['query']>;

/** `worksync docs`. */
export function addDocs(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('docs')
    .description("the workspace's documents: list, get, create, put, patch, attach")
    .exitOverride();
  for (const add of [addList, addGet, addCreate, addPut, addPatch, addAttach]) add(group, setting, exit);
}

interface DocumentListFlags extends ListFlags {
  readonly title?: string;
  readonly type?: readonly string[];
  readonly status?: readonly string[];
  readonly task?: string;
  readonly creator?: string;
  readonly updater?: string;
}

function addList(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'list',
    description: 'list documents without their content, newest first',
    example: 'docs list --task BUG-12 --status draft',
  };
  listCommand(group, described)
    .option('--title <text>', 'only where the title contains this, in any case')
    .option('--type <type>', 'requirement or task; may be repeated', eachOf(DOCUMENT_TYPES))
    .option('--status <status>', 'draft or completed; may be repeated', eachOf(DOCUMENT_STATUSES))
    .option('--task <task>', 'only those attached to this task (key or id; a key costs one request more)')
    .option('--creator <id>', 'only those that this user created')
    .option('--updater <id>', 'only those that this user changed last')
    .action((flags: DocumentListFlags) =>
      runOnWorkspace(setting, exit, flags, async (client) => {
        const taskId = flags.task === undefined ? undefined : await taskIdOf(client, flags.task);
        const { title, type, status, creator: createdByUserId, updater: updatedByUserId } = flags;
        const filters = { title, type, status, taskId, createdByUserId, updatedByUserId };
        const found = await readPages(flags, async (page) => {
          const query = { ...filters, ...page } as DocumentQuery;
          const { documents, nextCursor } = (await client.listDocuments({ query }, {})).body;
          return { entries: documents, nextCursor };
        });
        return { text: table(found.map(rowOf)), json: found };
      }),
    );
}

function rowOf({ documentId, type, status, title }: Listed): string[] {
  return [documentId, type, status, printable(title)];
}

function addGet(group: Command, setting: Setting, exit: Exit): void {
  workspaceCommand(group, {
    usage: 'get <document>',
    description: 'print the content of a document as it is; with --json all of it',
    example: 'docs get doc_PGZ3mGcBdhAhrUcC > plan.md',
  }).action((documentId: string, flags: WorkspaceFlags) =>
    runOnWorkspace(setting, exit, flags, async (client) => {
      const document = (await client.getDocument({ documentId }, {})).body;
      return { text: document.content, json: [document], asIs: !process.stdout.isTTY };
    }),
  );
}

type CreateFlags = WorkspaceFlags & { type?: string; status?: string; task?: string };

function addCreate(group: Command, setting: Setting, exit: Exit): void {
  const command = workspaceCommand(group, {
    usage: 'create <title>',
    description: 'create a document; not idempotent: repeating the command creates another one',
    example: 'docs create "Login plan" --content-file plan.md --task BUG-12',
  });
  withText(command, 'content')
    .option('--type <type>', 'requirement or task', oneOf(DOCUMENT_TYPES))
    .option('--status <status>', 'draft or completed', oneOf(DOCUMENT_STATUSES))
    .option('--task <task>', 'attach it to this task (key or id)')
    .action((title: string, flags: CreateFlags) => {
      const { type, status } = flags;
      const content = textOf(flags as never, 'content');
      return runOnWorkspace(setting, exit, flags, async (client) => {
        const taskId = flags.task === undefined ? undefined : await taskIdOf(client, flags.task);
        const { body } = await client.createDocument({ body: { title, content, type, status, taskId } }, {});
        return { text: `created ${body.documentId}`, json: [body] };
      });
    });
}

function addPut(group: Command, setting: Setting, exit: Exit): void {
  const command = workspaceCommand(group, {
    usage: 'put <document>',
    description: 'replace title and content of a document, and its status where one is given',
    example: 'docs put doc_PGZ3mGcBdhAhrUcC --title "Login plan" --content-file plan.md',
  });
  withText(command, 'content')
    .requiredOption('--title <text>', 'the title')
    .option('--status <status>', 'draft or completed', oneOf(DOCUMENT_STATUSES))
    .action((documentId: string, flags: WorkspaceFlags & { title: string; status?: string }) => {
      const { title, status } = flags;
      const content = textOf(flags as never, 'content');
      if (content === undefined) throw new SyncError('usage', 'give the whole content: --content or --content-file');
      return runOnWorkspace(setting, exit, flags, async (client) => {
        const { body } = await client.replaceDocument({ documentId, body: { title, content, status } }, {});
        return { text: `replaced ${body.documentId}`, json: [body] };
      });
    });
}

function addPatch(group: Command, setting: Setting, exit: Exit): void {
  const command = workspaceCommand(group, {
    usage: 'patch <document>',
    description: 'edit parts of a content: all operations or none; each target text must occur exactly once',
    example:
      'docs patch doc_PGZ3mGcBdhAhrUcC --replace "draft 1" --with "draft 2" --after "# Plan" --insert "New line"',
  });
  const operations = withOperations(command);
  command.action((documentId: string, flags: WorkspaceFlags & { opsFile?: string }) => {
    const ops = operations(flags.opsFile);
    return runOnWorkspace(setting, exit, flags, async (client) => {
      const { body } = await client.patchDocument({ documentId, body: { ops } }, {});
      return { text: `changed ${body.documentId}`, json: [body] };
    });
  });
}

function addAttach(group: Command, setting: Setting, exit: Exit): void {
  workspaceCommand(group, {
    usage: 'attach <task> <document>',
    description: 'attach a document to a task; one that is attached to another task moves here',
    example: 'docs attach BUG-12 doc_PGZ3mGcBdhAhrUcC',
  }).action((task: string, documentId: string, flags: WorkspaceFlags) =>
    runOnWorkspace(setting, exit, flags, async (client) => {
      const taskId = await taskIdOf(client, task);
      const { status, body } = await client.attachDocument({ taskId, body: { documentId } }, {});
      return { text: `${status === 201 ? 'attached' : 'already attached'}  ${body.documentId}`, json: [body] };
    }),
  );
}
