import type { SampleDelivery, Tried } from '../../admin/deliveries/sample-delivery.ts';
import type { Translation } from '../../connectors/connector.ts';
import { asTyped } from '../../platform/lib/own-program.ts';
import { printable } from '../../platform/lib/text.ts';
import { type AddCommands, FAILED, type Output, sessionOf, show } from '../command.ts';
import { webhookAddressOf } from '../owner.ts';
import type { Session } from '../session.ts';
import { table } from '../words.ts';
import {
  type CommandContext,
  chooseWorkspace,
  type WorkspaceFlags,
  warnOfOtherWorkspaces,
  withWorkspace,
  workspaceCommand,
} from '../workspace-command.ts';

const HELP = `
worksync makes the sample itself. It is about a pull request or work item called "worksync trial", which the vendor does not have.
Each connection has one such sample: with another --task it is renamed, and its link to the earlier task goes.
The daemon treats it like a real one, and records it if the workspace records pull requests. Without --yes the command sends
nothing. Where worksync asks the vendor for what a sample names, the vendor answers that there is no such thing, and the record is
closed.

The daemon judges the sample by the ids that it knows of the names in the configuration. If it never reached the vendor, it knows
none: give the id with --id then. It must be the real one, because the daemon keeps it.`;

interface TriggerFlags extends WorkspaceFlags {
  readonly id?: string;
  readonly task?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/** `worksync trigger`: a signed sample event, sent to the daemon as the vendor would send it. */
export const addTrigger: AddCommands = (program, setting) => {
  workspaceCommand(program, {
    usage: 'trigger <connection> [event]',
    description:
      "send a signed sample event of the connection's vendor to the daemon; without an event, list the events",
    example: 'trigger github opened --dry-run',
    help: HELP,
    costsQuota: false,
  })
    .option('--dry-run', 'show what the sample would become, and send nothing')
    .option('--yes', 'send it')
    .option('--id <id>', "the vendor's id of the first repository, project or team whose id worksync does not know yet")
    .option('--task <key>', 'name this task in the title, so that the sample is linked to it')
    .action(async (name: string, event: string | undefined, flags: TriggerFlags) => {
      const session = await sessionOf(setting, flags, () => 'warn');
      const { connections, name: workspace } = chooseWorkspace(session.config, flags.workspace);
      const tried = await triedOf(connections, name);
      const output =
        event === undefined ? await listOf(tried) : await tryOut(session, { workspace, tried, event }, flags);
      show(output, flags);
      setting.exit(output.code ?? 0);
    });
};

type Connections = Session['config']['workspaces'][number]['connections'];

async function triedOf(connections: Connections, wanted: string): Promise<Tried> {
  const { connectors } = await import('../../connectors/registry.ts');
  const { unknownName } = await import('../../admin/named.ts');
  const found = connections.find(({ name }) => name === wanted);
  const connector = connectors.find(({ id }) => id === found?.connector);
  if (found && connector) return { name: wanted, connector, options: found.options, secrets: found.webhookSecrets };
  const names = connections.map(({ name }) => name);
  throw unknownName('connection', wanted, names);
}

async function listOf(tried: Tried): Promise<Output> {
  const { samplesOf } = await import('../../admin/deliveries/sample-delivery.ts');
  const events = await samplesOf(tried);
  const found = Object.entries(events).map(([event, { about }]) => ({ event, about }));
  return { text: table(found.map(({ event, about }) => [event, about])), json: found };
}

interface Trial {
  readonly workspace: string;
  readonly tried: Tried;
  readonly event: string;
}

async function tryOut(session: Session, trial: Trial, flags: TriggerFlags): Promise<Output> {
  const { makeSample, withGivenId } = await import('../../admin/deliveries/sample-delivery.ts');
  const { tried, event, workspace } = trial;
  const { known, unknown } = await withWorkspace(session, flags, async (context) => {
    await warnOfOtherWorkspaces(context);
    const names = await context.request('scope-names', { connection: tried.name });
    return { known: names, unknown: await describeUnknownTask(context, flags.task) };
  });
  const bindings = withGivenId(tried, known, flags.id);
  const sample = await makeSample(tried, event, {
    at: session.parts.clock.now(),
    id: session.parts.random.uuid(),
    bindings,
    task: flags.task,
  });
  const { translation, key } = sample;
  const becomes = describe(translation);
  const common = { connection: tried.name, event, ...translation };
  if (flags.dryRun || !flags.yes) {
    const next = flags.dryRun ? [] : [`Nothing was sent. "--yes" sends it to ${workspace}/${tried.name}.`];
    return { text: [...becomes, ...unknown, ...next].join('\n'), json: [{ ...common, sent: false }] };
  }
  const status = await post(session, trial, sample);
  const taken = status >= 200 && status < 300;
  const next = taken
    ? `"worksync deliveries show ${key} --workspace ${workspace}" shows what happened to it.`
    : '"worksync deliveries refused" shows why.';
  const text = [...becomes, ...unknown, `The daemon answered ${status}.`, asTyped(next)].join('\n');
  return { text, json: [{ ...common, sent: true, status, delivery: key }], code: taken ? 0 : FAILED };
}

async function describeUnknownTask(
  { request }: CommandContext,
  target: string | undefined,
): Promise<readonly string[]> {
  if (target === undefined) return [];
  const { task } = await request('explain', { target });
  return task === null
    ? [
        printable(
          `Task ${target} is not known yet. If it does not exist in the workspace, the sample is linked to no task.`,
        ),
      ]
    : [];
}

/** Posts the sample as the vendor does. */
async function post(session: Session, { workspace, tried }: Trial, { headers, body }: SampleDelivery): Promise<number> {
  const { webhookUrlOf } = await import('../../sync/intake/webhook-routes.ts');
  const url = webhookUrlOf(await webhookAddressOf(session.options.data), workspace, tried.name);
  const target = tried.name;
  const { status } = await session.parts.http.request({ method: 'POST', url, headers, body, target });
  return status;
}

function describe(translation: Translation): readonly string[] {
  if (translation.outcome === 'ignored') return [`It is ignored: ${printable(translation.reason)}`];
  const items = translation.outcome === 'items' ? translation.items : [];
  const { references = [] } = translation;
  return [
    ...items.map(({ key, kind }) => printable(`It becomes the ${kind.replace('_', ' ')} ${key}.`)),
    ...references.map(({ key }) => printable(`worksync asks the vendor for ${key}, which the vendor does not have.`)),
  ];
}
