import type { Status } from '../admin/status.ts';
import { asTyped } from '../platform/lib/own-command.ts';
import { keepLooking } from './keep-looking.ts';
import { print } from './setting.ts';
import { printable, safeOutput } from './words.ts';

const LOOK_EVERY = 2_000;
/** No workspace has this name. */
const CONFIGURATION = 'the configuration';
/** The cursor at the top, and nothing below it. */
const REDRAW = '\u001b[H\u001b[J';

/**
 * Shows the status until a signal ends the process: drawn anew on a terminal, elsewhere a line for each workspace whenever
 * its summary changes. A daemon that is away for a while is no reason to end.
 */
export async function watchStatus(
  read: () => Promise<Status>,
  describe: (status: Status) => string,
  json: boolean,
): Promise<never> {
  const show = json
    ? (status: Status) => print(JSON.stringify(status))
    : process.stdout.isTTY
      ? redraw(describe)
      : append();
  return keepLooking(LOOK_EVERY, async () => show(await read()));
}

function redraw(describe: (status: Status) => string) {
  return (status: Status) => void process.stdout.write(`${REDRAW}${safeOutput(asTyped(describe(status)))}\n`);
}

function append() {
  const told = new Map<string, string>();
  return ({ at, workspaces, broken, configFault }: Status): void => {
    const fault = configFault && `not reloaded, ${configFault.code}: ${configFault.message}`;
    const lines = [
      ...(fault || told.has(CONFIGURATION) ? [[CONFIGURATION, fault ?? 'ok'] as const] : []),
      ...workspaces.map(({ name, verdict, summary }) => [name, `${verdict}, ${summary}`] as const),
      ...broken.map(({ name, code, message }) => [name, `blocked, ${code}: ${message}`] as const),
    ];
    for (const [name, text] of lines) {
      if (told.get(name) !== text) print(printable(`${new Date(at).toISOString()}  ${name}  ${text}`));
      told.set(name, text);
    }
  };
}
