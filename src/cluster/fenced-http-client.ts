import { SyncError } from '../model/errors/sync-error.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { Lease } from './holder.ts';

/**
 * Looks at the lease right before anything is sent, to the workspace or to a provider: whoever slept between two requests learns of it no
 * other way in time. Throws `lease_lost` then, and nothing was sent.
 */
export function fencedHttpClient(http: HttpClient, lease: Lease): HttpClient {
  if (!lease.fence) return http;
  return {
    ...http,
    async request(request) {
      if (!lease.isTrusted()) throw new SyncError('lease_lost', 'another process may own the workspace by now');
      return http.request(request);
    },
  };
}
