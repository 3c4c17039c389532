import type { GitProvider } from '../../connectors/connector.ts';
import type { ServerRequest } from '../../platform/http/server.ts';
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
import type { Foundation } from '../storage/transactions.ts';
import type { Events } from '../webhooks/events.ts';
import type { QuotaLog } from './quota-log.ts';

/** All that handlers and the pipeline use. */
export interface Service extends Foundation {
  readonly access: Access;
  readonly quotaLog: QuotaLog;
  readonly files: FileStore;
  readonly events: Events;
  readonly secrets: SecretBox;
  /** Members' writes at git providers, by the provider's name. */
  readonly providers: Readonly<Partial<Record<string, GitProvider>>>;
  readonly allowPrivateWebhooks: boolean;
  /** Returns the beginning of the service's addresses for the sender of this request: `http://host:port`. */
  readonly originFor: (request: ServerRequest) => string;
  /** Aborts when the service can no longer wait for others. */
  readonly ending: AbortSignal;
}

/** One request after authentication, quota, version, workspace and schemas have been checked. */
export interface Call<Name extends RouteName> {
  readonly caller: Caller;
  /** The beginning of the service's addresses for this client. */
  readonly origin: string;
  readonly workspaceId: string;
  readonly ids: Omit<Parameters<Routes[Name]>, 'query' | 'body' | 'ifMatch'>;
  readonly query: CheckedQuery<Routes[Name]>;
  readonly body: CheckedBody<Routes[Name]>;
  /** The header `If-Match`. */
  readonly ifMatch?: string;
}

/** The answer to a creation whose result was there already: 200 instead of 201. */
export class Existing<Body> {
  readonly body: Body;

  constructor(body: Body) {
    this.body = body;
  }
}

/** Returns the body of a success, whose status the contract gives; refuses with `ApiError`. */
type Handler<Name extends RouteName> = (
  service: Service,
  call: Call<Name>,
) => Promise<Written<Routes[Name]> | Existing<Written<Routes[Name]>>>;
export type Handlers = { readonly [Name in RouteName]: Handler<Name> };
