import { basename, extname } from 'node:path';
import type { Command } from 'commander';
import { SyncError } from '../../model/errors.ts';
import { ownProxies } from '../../platform/config/daemon-options.ts';
import { noSteps, silentMeter } from '../../platform/lib/telemetry.ts';
import type { Answered, Routes } from '../../workspace-api/contract.ts';
import type { Setting } from '../setting.ts';
import { readBytes } from '../text-input.ts';
import { runOnWorkspace, type WorkspaceFlags, workspaceCommand } from '../workspace-command.ts';

type Ticket = Answered<Routes['createUploadUrl']>;

export function addFiles(program: Command, setting: Setting): void {
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
}

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
  const http = createHttpClient({ steps: noSteps, meter: silentMeter, timeouts, proxies: ownProxies(() => undefined) });
  try {
    const verb = method === 'POST' ? 'POST' : 'PUT';
    const { status } = await http.request({ method: verb, url: uploadUrl, headers, body: bytes, target: 'upload' });
    if (status < 200 || status > 299)
      throw new SyncError('refused', `the upload was answered with ${status}`, { status });
  } finally {
    await http.close();
  }
}
