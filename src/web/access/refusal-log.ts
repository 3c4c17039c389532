import { hash } from 'node:crypto';
import { cut } from '../../model/text-limits.ts';
import { groupOfAddress } from '../../platform/http/addresses.ts';
import type { Server, ServerReply, ServerRequest } from '../../platform/http/server.ts';
import type { Cancel } from '../../platform/lib/clock.ts';
import { type RefusedRequest, storeRefused } from '../../store/access/refused-requests.ts';
import type { Installation } from '../../store/installation/installation.ts';
import type { StoreContext } from '../../store/store-context.ts';

const WRITE_EVERY = 3_000;
/** Different requests that are recorded between two writes: of known workspaces, and as many without one. */
const MOST_NEW = 50;
const MOST_HEADERS = 40;
const LONGEST_VALUE = 200;
const LONGEST_PATH = 300;

type LogContext = Pick<StoreContext, 'clock' | 'logger'> & {
  readonly installation: Pick<Installation, 'commitRelaxed'>;
};

type Pending = { -readonly [Field in keyof RefusedRequest]: RefusedRequest[Field] };

/**
 * Stores the requests that the webhook addresses and the gateway refuse, for people who search a lost delivery. The input is
 * hostile: equal requests are counted in memory, few different ones are recorded between two writes, and some seconds pass
 * between writes. Bodies are not stored, nor headers that may contain a secret.
 *
 * @param known returns which configured names are behind the address of a webhook
 */
export function createRefusalLog(
  { installation, clock, logger }: LogContext,
  scrub: (text: string) => string,
  known: (workspace: string, connection?: string) => { readonly workspace: boolean; readonly connection: boolean },
) {
  let pending = new Map<string, Pending>();
  let kinds = { known: 0, unknown: 0 };
  let cancel: Cancel | undefined;
  let writing = Promise.resolve();
  let stopped = false;

  const clean = (text: string, longest: number) => cut(scrub(text), longest);

  function placeOf({ passage }: ServerRequest, path: string): Pick<RefusedRequest, 'workspace' | 'connection'> {
    const [, workspace, connection] = /^\/webhooks\/([^/]+)(?:\/([^/]+))?/.exec(path) ?? [];
    if (workspace === undefined) return { workspace: passage?.workspace ?? null, connection: null };
    const is = known(workspace, connection);
    return { workspace: is.workspace ? workspace : null, connection: is.connection ? (connection ?? null) : null };
  }

  function note(request: ServerRequest, status: number, payload: unknown): void {
    const path = request.url.split('?', 1)[0] as string;
    const place = placeOf(request, path);
    const refusal = { ...place, method: request.method, path, status, code: codeOf(request, status, payload) };
    const address = groupOfAddress(request.ip);
    const key = [refusal.method, path.slice(0, LONGEST_PATH), status, refusal.code, address].join(' ');
    const kind = place.workspace === null ? 'unknown' : 'known';
    if (pending.has(key) || kinds[kind] < MOST_NEW) {
      const isNew = countOne(key, () => ({
        ...refusal,
        path: clean(path, LONGEST_PATH),
        address: request.ip,
        headers: headersOf(request, clean),
      }));
      if (isNew) kinds[kind]++;
      if (isNew && !stopped) cancel ??= clock.after(WRITE_EVERY, () => void flush());
      return;
    }
    // The rest of a flood is counted in one entry per status and code.
    const rest = { workspace: null, connection: null, path: MANY, address: MANY, headers: [] };
    countOne(`many ${status} ${refusal.code}`, () => ({ ...refusal, ...rest }));
  }

  /** Returns whether the request is the first one with this key. */
  function countOne(key: string, entryOf: () => Omit<RefusedRequest, 'key' | 'count' | 'firstAt' | 'lastAt'>): boolean {
    const now = clock.now();
    const before = pending.get(key);
    if (!before) pending.set(key, { ...entryOf(), key: hash('sha256', key), count: 1, firstAt: now, lastAt: now });
    else {
      before.count++;
      before.lastAt = now;
    }
    return !before;
  }

  function flush(): Promise<void> {
    cancel?.();
    cancel = undefined;
    const refused = [...pending.values()];
    pending = new Map();
    kinds = { known: 0, unknown: 0 };
    if (refused.length > 0) writing = writing.then(() => write(refused));
    return writing;
  }

  async function write(refused: readonly RefusedRequest[]): Promise<void> {
    try {
      await installation.commitRelaxed((transaction) => storeRefused(transaction, refused));
    } catch (error) {
      logger.warn({ error, count: refused.length }, 'refused requests could not be stored');
    }
  }

  return {
    /** Records the refusals of all routes that are added later. */
    watch(server: Server) {
      server.addHook('onSend', (request, reply, payload, done) => {
        if (reply.statusCode >= 400 && isWatched(request, reply)) note(request, reply.statusCode, payload);
        done(null, payload);
      });
    },
    flush,
    stop() {
      stopped = true;
      return flush();
    },
  };
}

/** Replaces paths and addresses in the entry that counts the rest. */
const MANY = 'many';

/** Answers of the workspace that count as refusals: they concern the credential or the quota. */
const REFUSALS_OF_WORKSPACE = [401, 403, 429];

function isWatched({ url, passage }: ServerRequest, { statusCode }: ServerReply): boolean {
  if (url.startsWith('/webhooks/')) return true;
  return url.startsWith('/api/v1/') && (!passage?.isAnswered || REFUSALS_OF_WORKSPACE.includes(statusCode));
}

/** Returns the code in the answer. Nothing else is read, because the text may be the workspace's. */
function codeOf({ is404 }: ServerRequest, status: number, payload: unknown): string {
  if (is404) return 'not_found';
  const code = typeof payload === 'string' && payload.length <= LONGEST_ANSWER ? codeIn(payload) : undefined;
  return typeof code === 'string' && /^[a-z_]{1,60}$/.test(code) ? code : `http_${status}`;
}

const LONGEST_ANSWER = 2_000;

function codeIn(text: string): unknown {
  try {
    const { error, errorCode } = JSON.parse(text) as { error?: unknown; errorCode?: unknown };
    return error ?? errorCode;
  } catch {
    return undefined;
  }
}

/** Headers whose values may be credentials, by the names that vendors use. */
const PROOFS = /auth|cookie|token|secret|sign|hmac|key|password|credential|session|hub-sig|digest/i;

function headersOf(
  { raw: { rawHeaders } }: ServerRequest,
  clean: (text: string, longest: number) => string,
): RefusedRequest['headers'] {
  const pairs: [string, string][] = [];
  for (let at = 0; at + 1 < rawHeaders.length && pairs.length < MOST_HEADERS; at += 2) {
    const name = cut((rawHeaders[at] as string).toLowerCase(), 100);
    const value = rawHeaders[at + 1] as string;
    pairs.push([name, PROOFS.test(name) ? `[${value.length} characters]` : clean(value, LONGEST_VALUE)]);
  }
  return pairs;
}
