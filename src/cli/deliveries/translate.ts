import { printable } from '../../platform/lib/text.ts';
import { type AddCommands, collect, oneOf, print, say } from '../command.ts';
import type { Given } from './translate-payload.ts';

const HELP = `
The command sends no request and reads no configuration: every repository counts as in scope, and options are off unless --with
switches them on. It prints one line per file, in the order of the files. If it cannot read a file, or the payload is malformed
(the daemon would quarantine it), it prints the reason there and on standard error, goes on, and ends with exit code 1.

Example: worksync translate gitlab merge-request.json --json
         worksync translate github --event pull_request_review *.json --json
         worksync translate gitlab --with issues issue.json
         worksync translate bitbucket - < delivery.json`;

/** Adds the command that prints the items in captured payloads. */
export const addTranslate: AddCommands = (program, { scrubber, exit }) => {
  program
    .command('translate')
    .description('print what captured payloads become: items, references to items, or nothing, and why')
    .argument('<connector>', 'id of a connector, as "worksync connectors" lists them')
    .argument('<files...>', 'files that hold one payload each; - reads standard input')
    .option('--event <name>', "the event as the vendor's header names it (default: guessed from the payload)")
    .option(
      '--source <source>',
      'source of the payload: webhook, poll or fetch; the last two need --event too',
      oneOf(['webhook', 'poll', 'fetch']),
      'webhook',
    )
    .option('--host <host>', "host that sent it (default: the vendor's public one)")
    .option('--with <option>', "switches on one of the connection's options, such as issues; may be repeated", collect)
    .option('--json', 'print one JSON object per file')
    .addHelpText('after', HELP)
    .exitOverride()
    .action(async (id: string, files: readonly string[], given: Given) => {
      const { asJson, describe, viewOf } = await import('./translate-payload.ts');
      const look = viewOf(id, given);
      let failed = false;
      for (const file of files) {
        const seen = look(file);
        if (seen.error) say(scrubber.scrub(`worksync: ${file}: ${printable(seen.error)}`));
        failed ||= seen.error !== undefined;
        print(given.json ? JSON.stringify(asJson(file, seen.translation)) : describe(file, seen.translation));
      }
      exit(failed ? 1 : 0);
    });
};
