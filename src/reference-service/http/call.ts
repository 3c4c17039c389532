import type { GitProvider } from '../../connectors/connector.ts';
import type { Database } from '../../platform/database/database-types.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Random } from '../../platform/lib/random.ts';
import type { SecretBox } from '../../platform/lib/secret-box.ts';
import type {
  CheckedBody,
  CheckedQuery,
  Parameters,
  RouteName,
  Routes,
  Written,
} from '../../workspace-api/contract.ts';
import type { Access, Caller } from '../access/caller-rights.ts';
import type { FileStore } from '../files/file-store.ts';
import type { ServiceTables } from '../storage/service-tables.ts';
import type { Commits, Write } from '../storage/transactions.ts';
import type { Events } from '../webhooks/events.ts';
import type { Variant } from './variant.ts';

/** The dependencies of the handlers. */
export interface Service {
  readonly database: Database<ServiceTables>;
  readonly commits: Commits;
  readonly access: Access;
  readonly files: FileStore;
  readonly events: Events;
  readonly secrets: SecretBox;
  /** Members' writes at git providers, by the provider's name. */
  readonly providers: Readonly<Partial<Record<string, GitProvider>>>;
  readonly allowPrivateWebhooks: boolean;
  readonly variant: Variant;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Aborts when the service can no longer wait for others. */
  readonly ending: AbortSignal;
}

/** The database for reads, or a transaction. */
export type Query = Database<ServiceTables>['query'] | Write;

/** One request after authentication, quota, version, workspace and schemas have been checked. */
export interface Call<Name extends RouteName> {
  readonly caller: Caller;
  /** The beginning of the service's addresses for this client: `http://host:port`. */
  readonly origin: string;
  readonly workspaceId: string;
  readonly ids: Omit<Parameters<Routes[Name]>, 'query' | 'body' | 'ifMatch'>;
  readonly query: CheckedQuery<Routes[Name]>;
  readonly body: CheckedBody<Routes[Name]>;
  /** The header `If-Match`. */
  readonly ifMatch?: string;
}

export interface Answer<Body> {
  readonly status: number;
  readonly body: Body;
}

/** Answers one route; refuses with `ApiError`. */
type Handler<Name extends RouteName> = (call: Call<Name>) => Promise<Answer<Written<Routes[Name]>>>;
export type Handlers<Name extends RouteName> = { readonly [One in Name]: Handler<One> };
