import { commandFor } from '../../admin/installation/init.ts';
import { drained } from '../../admin/installation/once.ts';
import { type Composition, compose } from '../../daemon/compose.ts';
import type { Daemon } from '../../daemon/serve.ts';
import { displayName } from '../../platform/config/load.ts';
import { webhookPathOf } from '../../sync/intake/webhook-routes.ts';
import { print } from '../command.ts';
import type { Session } from '../session.ts';
import { endOnSignals } from '../signals.ts';
import { plural } from '../words.ts';
import { findStage, playDeliveries, seedTasks } from './play-demo.ts';

/**
 * `worksync run`: the daemon, until a signal ends it. On the embedded default it also plays the bundled deliveries.
 */
export async function run(session: Session): Promise<void> {
  const { parts, demoSecret } = session;
  const composing = compose(session, parts);
  // From the begin: a signal that comes while it starts ends it in order too.
  endOnSignals({
    ...parts,
    close(report) {
      report('the start', false);
      return composing.then((composition) => composition.close(report));
    },
    onSignal: () => process.stdout.isTTY && print('\nShutting down. Press Ctrl-C again to stop at once.'),
    reload: () => composing.then(({ reload }) => reload.now()),
  });
  const composition = await composing;
  const stage = findStage(composition, demoSecret);
  if (stage) await seedTasks(stage, parts);
  const daemon = await composition.serve();
  parts.logger.info({ address: daemon.address, version: session.version }, 'the daemon runs');
  print(await greeting(daemon, composition));
  for (const path of await session.drafts())
    print(`\n${displayName(path)} is an unfinished draft: ${commandFor(path)} goes on with it.`);
  print(await howToLogIn(daemon));
  if (!stage) return;
  const { sent, fresh } = await playDeliveries(stage, daemon.address, demoSecret, parts);
  print(
    `\nThe demo: ${plural(sent, 'signed GitHub delivery', 'signed GitHub deliveries')} sent, ${fresh} of them new.`,
  );
  await drained(stage.partition, parts.clock);
  const { pullRequests, links, requests } = await stage.service.statistics();
  print(
    `The workspace has ${plural(pullRequests, 'pull request')} and ${plural(links, 'link')}; ` +
      `this start took ${plural(requests, 'request')}.`,
  );
  print('Stop with Ctrl-C. Your own workspace: "worksync init".');
}

async function greeting(daemon: Daemon, { workspaces, ownerAddress }: Composition): Promise<string> {
  const lines = [`worksync runs. Status page: ${daemon.pagesAddress}/`];
  for (const { name, config, connections } of workspaces.partitions()) {
    lines.push(`\nworkspace ${name}: ${config.workspace.url ?? 'the embedded reference service'}`);
    for (const connection of connections) {
      const hook =
        connection.secrets.length > 0 ? `webhooks at ${webhookPathOf(name, connection.name)}` : 'no webhooks';
      const poll = connection.schedule === 'off' ? 'no polls' : 'polls';
      lines.push(`  ${connection.name} (${connection.connector.title}): ${hook}, ${poll}`);
    }
  }
  for (const [name, { code, message }] of workspaces.broken()) {
    if (code === 'held_elsewhere') lines.push(`\nworkspace ${name}: ${workedOnBy(await ownerAddress(name))}`);
    else lines.push(`\nworkspace ${name}: DID NOT START: ${code}: ${message}`);
  }
  return lines.join('\n');
}

/** @param address undefined while the workspace has no owner; empty for one that does not listen yet */
function workedOnBy(address: string | undefined): string {
  if (address === undefined) return 'no replica works on it yet';
  return `another replica works on it${address === '' ? '' : ` (${address})`}`;
}

/** Prints the link only to a terminal, because it opens everything and must not enter a log. */
async function howToLogIn(daemon: Daemon): Promise<string> {
  if (!process.stdout.isTTY) return '\nTo log a browser in, run "worksync login".';
  return `\nLog in (once, within ten minutes): ${await daemon.loginLink()}\n"worksync login" prints another link.`;
}
