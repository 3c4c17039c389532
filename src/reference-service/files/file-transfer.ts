import type { Readable } from 'node:stream';
import type { Server, ServerReply, ServerRequest } from '../../platform/http/server.ts';
import { ApiError, invalid, notFound } from '../http/api-error.ts';
import type { Service } from '../http/call.ts';
import { isNotModified } from '../http/etag.ts';
import { ASSET_ADDRESS, findAwaited, findUploaded, settleUpload, UPLOAD_ADDRESS, type UploadedFile } from './files.ts';
import { readGrant } from './upload-signature.ts';

/** A request whose credentials, quota, version and workspace have been checked. */
interface Entered {
  readonly workspaceId: string;
  readonly ids: Readonly<Record<string, string>>;
  /** Settles when the count of the request is durable. */
  readonly counted: Promise<void> | undefined;
}

/** The two addresses of a file (W50, W51): its bytes in, once and by signature; out, by bearer. */
export function addFileTransfer(
  server: Server,
  service: Service,
  enter: (request: ServerRequest) => Promise<Entered>,
): void {
  let closing = false;
  server.addHook('preClose', async () => {
    closing = true;
  });
  server.get(ASSET_ADDRESS, async (request, reply) => {
    const { workspaceId, ids, counted } = await enter(request);
    const file = await findUploaded(service, workspaceId, ids['fileId']!);
    if (file === undefined) throw notFound('file');
    await counted;
    endConnectionAfter(reply, () => closing);
    return giveFile(service, request, reply, file);
  });
  // Its own scope: only here is the body a stream, which no limit of a buffered body applies to.
  void server.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    scope.put(UPLOAD_ADDRESS, async (request, reply) => {
      await receiveFile(service, request);
      return reply.code(204).send();
    });
  });
}

async function receiveFile(service: Service, request: ServerRequest): Promise<void> {
  const { fileId } = request.params as { fileId: string };
  const grant = readGrant(service.files.signingKey, fileId, request.query);
  if (grant === undefined || grant.expiresAt <= service.clock.now()) throw unusableAddress();
  const awaited = await findAwaited(service, fileId);
  if (awaited === undefined) throw unusableAddress();
  checkAnnounced(request.headers, awaited);
  // Nothing that was announced is empty.
  if (request.body === undefined) throw invalid('a body is required');
  const digest = await service.files.receive(request.body as Readable, awaited.size);
  if (!(await settleUpload(service, fileId, digest))) throw unusableAddress();
}

/** One answer for wrong, expired and used addresses: in each case a new one is to be requested. */
function unusableAddress(): ApiError {
  return new ApiError('forbidden', 'the upload address is wrong, expired or used: request a new one');
}

/** Refuses what its head already tells to be wrong, before any byte is stored. */
function checkAnnounced(headers: ServerRequest['headers'], awaited: { content_type: string; size: number }): void {
  if (headers['content-type']?.trim().toLowerCase() !== awaited.content_type)
    throw invalid(`Content-Type must be ${awaited.content_type}`);
  const length = Number(headers['content-length'] ?? awaited.size);
  if (length > awaited.size) throw new ApiError('payload_too_large', `Content-Length must be ${awaited.size}`);
  if (length < awaited.size) throw invalid(`Content-Length must be ${awaited.size}`);
}

async function giveFile(service: Service, request: ServerRequest, reply: ServerReply, file: UploadedFile) {
  const etag = `"${file.digest}"`;
  const validators = { etag, 'cache-control': 'private, no-cache' };
  if (isNotModified(request.headers['if-none-match'], etag)) return reply.code(304).headers(validators).send();
  const handle = await service.files.open(file.digest);
  return reply.headers({ ...validators, ...headersOf(file) }).send(handle.createReadStream());
}

/**
 * Closing ends the connections that are idle. One that is still giving a file becomes idle later, and the promise to
 * keep it alive is already sent: it would hold up the end until its client lets go.
 */
function endConnectionAfter(reply: ServerReply, isClosing: () => boolean): void {
  reply.raw.once('finish', () => {
    if (isClosing()) reply.raw.req.socket.destroySoon();
  });
}

/** Types that a browser only paints. Others, SVG first of all, may hold scripts. */
const PAINTED = /^(image\/(apng|avif|bmp|gif|jpeg|png|webp)|video\/[a-z0-9._-]+)$/;

function headersOf(file: UploadedFile): Record<string, string | number> {
  return {
    'content-type': file.content_type,
    'content-length': file.size,
    'content-disposition': `inline; filename*=UTF-8''${encodeName(file.filename)}`,
    'x-content-type-options': 'nosniff',
    ...(!PAINTED.test(file.content_type) && {
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    }),
  };
}

/** RFC 8187: `encodeURIComponent` leaves four characters that are not allowed there. */
function encodeName(filename: string): string {
  return encodeURIComponent(filename).replace(/['()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
}
