import type { GitProvider } from '../connectors/connector.ts';
import { connectors } from '../connectors/registry.ts';
import type { Parts } from './parts.ts';

/** Every git provider that members can write to, by the connector's id. */
export function gitProviders(parts: Pick<Parts, 'http' | 'clock' | 'logger'>): Readonly<Record<string, GitProvider>> {
  return Object.fromEntries(connectors.flatMap(({ id, git }) => (git ? [[id, git(parts)]] : [])));
}
