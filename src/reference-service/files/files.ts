import { createHmac } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Selectable } from 'kysely';
import type { Server, ServerReply, ServerRequest } from '../../platform/http/server.ts';
import { isSameSecret } from '../../platform/lib/digest.ts';
import { BASE_PATH, LIMITS } from '../../workspace-api/contract.ts';
import { ApiError, invalid, isNotModified, notFound } from '../http/api-error.ts';
import type { Call, Service } from '../http/call.ts';
import { newId, timeNow } from '../storage/rows.ts';
import type { ServiceTables } from '../storage/service-tables.ts';

/** A file whose bytes have arrived. */
type UploadedFile = Selectable<ServiceTables['files']> & { digest: string };

/** Addresses beside the routes of the contract, in the form of the HTTP server: they transfer bytes, not JSON. */
export const UPLOAD_ADDRESS = `${BASE_PATH}/uploads/:fileId`;
export const ASSET_ADDRESS = `${BASE_PATH}/workspaces/:workspaceId/assets/:fileId`;

/** An upload address is valid for 15 minutes (W51). */
const UPLOAD_WINDOW = 15 * 60_000;

export const fileHandlers = { createUploadUrl };

async function createUploadUrl(service: Service, { workspaceId, caller, body, origin }: Call<'createUploadUrl'>) {
  refuseTooLarge(body.contentType, body.size);
  const grant = { fileId: newId(service.random, 'file'), expiresAt: service.clock.now() + UPLOAD_WINDOW };
  const uploadUrl = new URL(origin + UPLOAD_ADDRESS.replace(':fileId', grant.fileId));
  uploadUrl.search = signGrant(service.files.signingKey, grant);
  const asset = ASSET_ADDRESS.replace(':workspaceId', workspaceId).replace(':fileId', grant.fileId);
  await service.commits.run(async (write) => {
    // The rows of unused addresses that have expired.
    await write.deleteFrom('files').where('digest', 'is', null).where('expires_at', '<', service.clock.now()).execute();
    await write
      .insertInto('files')
      .values({
        file_id: grant.fileId,
        workspace_id: workspaceId,
        filename: body.filename,
        content_type: body.contentType,
        size: body.size,
        created_by_user_id: caller.userId,
        created_at: timeNow(service.clock),
        expires_at: grant.expiresAt,
        digest: null,
        uploaded_at: null,
      })
      .execute();
  });
  return {
    uploadUrl: uploadUrl.href,
    assetUrl: new URL(origin + asset).href,
    method: 'PUT',
    headers: { 'content-type': body.contentType },
    expiresAt: new Date(grant.expiresAt).toISOString(),
  };
}

function refuseTooLarge(contentType: string, size: number): void {
  const kind = contentType.startsWith('image/') ? 'image' : 'video';
  if (size > LIMITS[kind]) throw new ApiError('payload_too_large', `${kind}: at most ${LIMITS[kind]} bytes`);
}

/** Returns the file that an upload address is for; undefined if the address was already used. */
function findAwaited({ database }: Service, fileId: string) {
  return database.query
    .selectFrom('files')
    .select(['content_type', 'size'])
    .where('file_id', '=', fileId)
    .where('digest', 'is', null)
    .executeTakeFirst();
}

/** Stores the digest of the received bytes. Returns false if another upload to the same address was faster. */
function settleUpload(service: Service, fileId: string, digest: string): Promise<boolean> {
  const uploadedAt = timeNow(service.clock);
  return service.commits.run(async (write) => {
    const settled = await write
      .updateTable('files')
      .set({ digest, uploaded_at: uploadedAt })
      .where('file_id', '=', fileId)
      .where('digest', 'is', null)
      .executeTakeFirst();
    return settled.numUpdatedRows === 1n;
  });
}

async function findUploaded({ database }: Service, workspaceId: string, fileId: string) {
  const row = await database.query
    .selectFrom('files')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('file_id', '=', fileId)
    .where('digest', 'is not', null)
    .executeTakeFirst();
  return row as UploadedFile | undefined;
}

/** Returns the digests in the rows: all other files on disk are left from a crash. */
export async function namedDigests(database: Service['database']): Promise<ReadonlySet<string>> {
  const rows = await database.query
    .selectFrom('files')
    .select('digest')
    .distinct()
    .where('digest', 'is not', null)
    .execute();
  return new Set(rows.map(({ digest }) => digest!));
}

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

/** The right of an upload address: the bytes of one file, until a time in epoch milliseconds. */
interface Grant {
  readonly fileId: string;
  readonly expiresAt: number;
}

/** Returns the query of an upload address (W51). The signature rejects others before any row is read. */
function signGrant(key: Buffer, grant: Grant): string {
  return new URLSearchParams({ expires: String(grant.expiresAt), signature: signatureOf(key, grant) }).toString();
}

/** Returns the grant of an address that this service has signed; undefined for any other. It may have expired. */
function readGrant(key: Buffer, fileId: string, query: unknown): Grant | undefined {
  const { expires, signature } = query as Readonly<Record<string, unknown>>;
  if (typeof expires !== 'string' || !/^\d{1,15}$/.test(expires) || typeof signature !== 'string') return undefined;
  const grant = { fileId, expiresAt: Number(expires) };
  return isSameSecret(signature, signatureOf(key, grant)) ? grant : undefined;
}

function signatureOf(key: Buffer, { fileId, expiresAt }: Grant): string {
  return createHmac('sha256', key).update(`${fileId}.${expiresAt}`).digest('base64url');
}
