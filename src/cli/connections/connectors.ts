import type { Connector } from '../../connectors/connector.ts';
import { type AddCommands, print } from '../command.ts';
import { table } from '../words.ts';

const HELP = `
Every connector has all flags; those that it does not name are false. With --json one object in a line for each.

Example: worksync connectors --json`;

/** `worksync connectors`: the connectors of this version. */
export const addConnectors: AddCommands = (program) => {
  program
    .command('connectors')
    .description('list the connectors, what each vendor can do, and the options of a connection')
    .option('--json', 'print one JSON object per connector')
    .addHelpText('after', HELP)
    .exitOverride()
    .action(async ({ json }: { json?: boolean }) => {
      const { connectors } = await import('../../connectors/registry.ts');
      const sorted = connectors.toSorted((a, b) => (a.id < b.id ? -1 : 1));
      const listed = await Promise.all(sorted.map(listedAs));
      print(json ? listed.map((each) => JSON.stringify(each)).join('\n') : listed.map(describe).join('\n\n'));
    });
};

async function listedAs({ id, title, publicHost, capabilities, git, options }: Connector<unknown>) {
  const { CAPABILITY_DEFAULTS } = await import('../../connectors/connector.ts');
  const { keysOf, schemaOf } = await import('../../platform/config/generated-files.ts');
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

type Listed = Awaited<ReturnType<typeof listedAs>>;

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
