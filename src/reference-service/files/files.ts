import type { Selectable } from 'kysely';
import { BASE_PATH, LIMITS } from '../../workspace-api/contract.ts';
import { ApiError } from '../http/api-error.ts';
import type { Call, Handlers, Service } from '../http/call.ts';
import { newId, timeNow } from '../storage/new-row.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import type { Write } from '../storage/transactions.ts';
import { signGrant } from './upload-signature.ts';

/** A file whose bytes have arrived. */
export type UploadedFile = Selectable<ServiceTables['files']> & { digest: string };

/** Addresses beside the routes of the contract, in the form of the HTTP server: they transfer bytes, not JSON. */
export const UPLOAD_ADDRESS = `${BASE_PATH}/uploads/:fileId`;
export const ASSET_ADDRESS = `${BASE_PATH}/workspaces/:workspaceId/assets/:fileId`;

/** An upload address is valid for 15 minutes (W51). */
const UPLOAD_WINDOW = 15 * 60_000;

export function fileHandlers(service: Service): Handlers<'createUploadUrl'> {
  return { createUploadUrl: (call) => createUploadUrl(service, call) };
}

async function createUploadUrl(service: Service, { workspaceId, caller, body, origin }: Call<'createUploadUrl'>) {
  refuseTooLarge(body.contentType, body.size);
  const grant = { fileId: newId(service.random, 'file'), expiresAt: service.clock.now() + UPLOAD_WINDOW };
  const uploadUrl = addressAt(origin, UPLOAD_ADDRESS.replace(':fileId', grant.fileId));
  uploadUrl.search = signGrant(service.files.signingKey, grant);
  const asset = ASSET_ADDRESS.replace(':workspaceId', workspaceId).replace(':fileId', grant.fileId);
  await service.commits.run(async (write) => {
    await forgetExpired(write, service.clock.now());
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
  const ticket = {
    uploadUrl: uploadUrl.href,
    assetUrl: addressAt(origin, asset).href,
    method: 'PUT',
    headers: { 'content-type': body.contentType },
    expiresAt: new Date(grant.expiresAt).toISOString(),
  };
  return { status: 201, body: ticket };
}

function refuseTooLarge(contentType: string, size: number): void {
  const kind = contentType.startsWith('image/') ? 'image' : 'video';
  if (size > LIMITS[kind]) throw new ApiError('payload_too_large', `${kind}: at most ${LIMITS[kind]} bytes`);
}

function addressAt(origin: string, path: string): URL {
  return new URL(origin + path);
}

/** Deletes the rows of unused addresses that have expired. */
async function forgetExpired(write: Write, now: number): Promise<void> {
  await write.deleteFrom('files').where('digest', 'is', null).where('expires_at', '<', now).execute();
}

/** Returns the file that an upload address is for; undefined if the address was already used. */
export function findAwaited({ database }: Service, fileId: string) {
  return database.query
    .selectFrom('files')
    .select(['content_type', 'size'])
    .where('file_id', '=', fileId)
    .where('digest', 'is', null)
    .executeTakeFirst();
}

/** Stores the digest of the received bytes. Returns false if another upload to the same address was faster. */
export function settleUpload(service: Service, fileId: string, digest: string): Promise<boolean> {
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

export async function findUploaded({ database }: Service, workspaceId: string, fileId: string) {
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
