import { CAPABILITY_DEFAULTS, type Connector } from '../connectors/connector.ts';
import { connectors } from '../connectors/registry.ts';
import { keysOf, schemaOf } from '../platform/config/generated-files.ts';
import { table } from './words.ts';

/** Lists the connectors of this version, for `worksync connectors`. */
export function listConnectors(json: boolean): string {
  const listed = connectors.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(listedAs);
  return json ? listed.map((each) => JSON.stringify(each)).join('\n') : listed.map(describe).join('\n\n');
}

function listedAs({ id, title, publicHost, capabilities, git, options }: Connector<unknown>) {
  const keys = keysOf(schemaOf(options)).map((key) => ({ ...key, type: key.type.replaceAll('`', '') }));
  return {
    id,
    title,
    publicHost,
    capabilities: { ...CAPABILITY_DEFAULTS, ...capabilities },
    /** Whether members can open and edit pull requests there. */
    opensPullRequests: git !== undefined,
    options: keys,
  };
}

type Listed = ReturnType<typeof listedAs>;

function describe({ id, title, publicHost, capabilities, opensPullRequests, options }: Listed): string {
  const flags = Object.entries({ ...capabilities, opensPullRequests });
  const names = (wanted: boolean) =>
    flags
      .filter(([, value]) => value === wanted)
      .map(([name]) => name)
      .join(', ') || 'nothing';
  const rows = options.map(({ key, type, required, default: standard }) => [
    `    ${key}`,
    type,
    required ? 'required' : standard === undefined ? '' : `default: ${JSON.stringify(standard)}`,
  ]);
  return [
    `${id}: ${title} (${publicHost})`,
    `  can       ${names(true)}`,
    `  cannot    ${names(false)}`,
    '  options',
    table(rows),
  ].join('\n');
}
