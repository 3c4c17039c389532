import { z } from 'zod';
import { answered, type Route, sent } from './route.ts';

/** No parameters: `image/png`, `video/mp4`, `image/svg+xml`. */
const MEDIA_TYPE = /^(image|video)\/[a-z0-9][a-z0-9.+_-]{0,99}$/;

const newFile = z.object({
  /** Shown to who downloads it; never a path on the server's disk. */
  filename: sent.name
    .refine((name) => name.isWellFormed(), 'must not hold half a surrogate pair')
    .refine((name) => !/[\p{Cc}/\\]/u.test(name), 'must be a name, not a path'),
  contentType: z.string().toLowerCase().regex(MEDIA_TYPE, 'must be image/* or video/*, without parameters'),
  size: z.int().min(1).describe('bytes, exactly'),
});

const uploadTicket = z
  .looseObject({
    uploadUrl: answered.url.describe('takes the bytes once, without a bearer'),
    assetUrl: answered.url.describe('gives the bytes afterwards, with the bearer'),
    method: z.string().catch('PUT'),
    headers: z
      .preprocess((value) => value ?? {}, z.record(z.string(), z.string()))
      .describe('to be sent with the bytes'),
    expiresAt: answered.time.describe('RFC 3339, UTC'),
  })
  .meta({ id: 'UploadTicket' });

export const fileRoutes = {
  /**
   * W50, W51. 201 with a signed address, valid for 15 minutes and for one upload.
   * Errors: 400 for other types than image and video, 413 over 10 MB for an image and 100 MB for a video.
   */
  createUploadUrl: {
    method: 'POST',
    path: '/files/upload-url',
    alsoAt: '/workspaces/{workspaceId}/files/upload-url',
    summary: 'Request a signed URL for a file',
    rules: 'W50, W51',
    body: newFile,
    response: uploadTicket,
  },
} as const satisfies Record<string, Route>;
