import { z } from 'zod';
import type { Clock } from '../../platform/lib/clock.ts';
import { createMemory } from '../kit/cached-reads.ts';
import type { Page } from '../kit/git-api.ts';
import { type HookPlace, hookPlaces } from '../kit/hooks.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import { type Repositories, repositoryPath } from './repositories.ts';

/** The parts of a connection that its checks, hooks and redelivery use. */
export interface Parts {
  readonly api: Api;
  /** The API as the App itself, where there is one. */
  readonly appApi: Api | undefined;
  readonly options: Options;
  readonly repositories: Repositories;
  readonly findHook: FindHook;
  readonly clock: Clock;
}

/** Where webhooks of this connection can be registered. */
export function placesOf({ options, repositories }: Parts, signal: AbortSignal): Promise<readonly HookPlace[]> {
  const owners = options.organizations.map((owner) => ({ subject: owner, path: `/orgs/${owner}/hooks` }));
  const { listed } = repositories;
  const followed = { scope: scopeOf(options), listed, unitOf: ({ id }: { id: string }) => id, pathOf: repositoryPath };
  return hookPlaces(owners, followed, signal);
}

/** Without the right GitHub answers 403 or 404. */
export const HIDDEN = ['not_found', 'forbidden'] as const;

export const hook = z.object({
  id: z.int().positive(),
  active: z.boolean().catch(false),
  events: z.array(z.string()).catch([]),
  config: z
    .object({
      url: z.string().catch(''),
      content_type: z.string().catch('form'),
      insecure_ssl: z.union([z.string(), z.number()]).transform(String).catch('0'),
      secret: z.string().optional().catch(undefined),
    })
    .catch({ url: '', content_type: 'form', insecure_ssl: '0' }),
  last_response: z
    .object({ code: z.int().nullable().catch(null), message: z.string().nullable().catch(null) })
    .optional()
    .catch(undefined),
});

export type Hook = z.infer<typeof hook>;

/** The hook of a place that delivers to this address; undefined where there is none. */
export type FindHook = (path: string, url: string, signal: AbortSignal) => Promise<Hook | undefined>;

/** worksync looks for hooks again and again; an unchanged list uses up nothing of the limit. */
export function createFindHook(api: Api): FindHook {
  const memory = createMemory<Page>();
  return async (path, url, signal) => {
    for await (const page of api.pages(hook, path, { query: 'per_page=100', signal }, memory)) {
      const found = page.find(({ config }) => config.url === url);
      if (found) return found;
    }
    return undefined;
  };
}
