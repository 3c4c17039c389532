import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

/**
 * How a body stands in the inbox: as it came, or as a zstd frame beside the length it unpacks to. JSON shrinks to a
 * tenth, and packing it takes less time than writing and syncing ten times as much before the sender hears 2xx.
 */
export interface StoredBody {
  readonly body: Buffer;
  /** Null where the body stands as it came. */
  readonly unpacked_length: number | null;
}

/** What fits into the row's own page is not worth packing. */
const WORTH_PACKING = 4_096;

const OPTIONS = {
  params: { [constants.ZSTD_c_compressionLevel]: 1 },
  // Of each piece of the result; most need one. The standard 16 KiB would mostly be cleared in vain.
  chunkSize: 4_096,
};

export function packBody(body: Buffer): StoredBody {
  if (body.length < WORTH_PACKING) return { body, unpacked_length: null };
  const frame = zstdCompressSync(body, { ...OPTIONS, pledgedSrcSize: body.length });
  return { body: frame, unpacked_length: body.length };
}

export function unpackBody({ body, unpacked_length: length }: StoredBody): Buffer {
  if (length === null) return body;
  return zstdDecompressSync(body, { chunkSize: length, maxOutputLength: length });
}
