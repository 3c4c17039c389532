import { failureOf } from './answer.ts';
import type { ApiResponse, WorkspaceClient } from './client.ts';

/** A file as it is announced and sent; `bytes` is whatever `put` takes, for example a stream. */
export interface OutgoingFile<Bytes> {
  /** A name, not a path. */
  readonly filename: string;
  /** `image/*` or `video/*`. */
  readonly contentType: string;
  /** Bytes, exactly. */
  readonly size: number;
  readonly bytes: Bytes;
}

/** Sends bytes to an address by PUT, with these headers and no credential, and returns the answer whatever its status. */
export type Put<Bytes> = (
  url: string,
  headers: Readonly<Record<string, string>>,
  bytes: Bytes,
) => Promise<Pick<ApiResponse, 'status' | 'headers' | 'body'>>;

/**
 * Uploads a file (section 2, Signed upload URL; G21): requests a signed address, sends the bytes there, and resolves
 * with the asset address, which stands in texts and is read with the bearer. Only the first request counts against
 * the quota. The signed address is a secret for 15 minutes: it is in no message.
 *
 * Throws what the client throws (400 for another type than image or video, 413 over the limit of the type), what `put`
 * throws, and `forbidden` or `refused` when the bytes are not taken.
 */
export async function uploadFile<Context, Bytes>(
  client: Pick<WorkspaceClient<Context>, 'createUploadUrl'>,
  put: Put<Bytes>,
  file: OutgoingFile<Bytes>,
  context: Context,
): Promise<string> {
  const { filename, contentType, size } = file;
  const { body: ticket } = await client.createUploadUrl({ body: { filename, contentType, size } }, context);
  const response = await put(ticket.uploadUrl, ticket.headers, file.bytes);
  if (response.status < 200 || response.status > 299) throw failureOf(response, { method: 'PUT', path: 'the file' });
  return ticket.assetUrl;
}
