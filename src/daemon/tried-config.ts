import type { TriedConfig } from '../admin/open-workspace.ts';
import { LARGE_CONFIG, readConfigText } from '../platform/config/load.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Converter } from '../sync/worker/converter.ts';
import { apiOverrides } from '../workspace-api/contract.ts';
import type { Parts } from './parts.ts';
import { type NameBooks, rulesOf, sourcesOf } from './sources.ts';

interface Tried extends Pick<Parts, 'connectors'> {
  /** The one in use: a text need not name the workspace, and links to its address are links in any case. */
  readonly inUse: WorkspaceConfig;
  readonly baseUrl: string;
  readonly books: NameBooks;
  readonly converter: Converter;
}

/** Another configuration of a workspace that is open, ready to evaluate items by. Nothing of it is opened or asked. */
export async function tryConfig(
  text: string,
  { inUse, baseUrl, books, connectors, converter }: Tried,
): Promise<TriedConfig> {
  const file = `${inUse.name}.yaml`;
  const config =
    text.length > LARGE_CONFIG
      ? await converter.configText({ text, file })
      : readConfigText(text, { connectors, apiOverrides }, file);
  return {
    config,
    rules: rulesOf({ ...config, workspace: { ...config.workspace, url: inUse.workspace.url } }, baseUrl, connectors),
    sources: sourcesOf(config.connections, connectors, books, converter),
  };
}
