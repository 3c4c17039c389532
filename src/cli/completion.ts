import { type Command, InvalidArgumentError } from 'commander';
import { didYouMean } from '../platform/lib/nearest.ts';
import { SHELLS, type Shell, scriptFor } from './completion-script.ts';
import { type Exit, print, type Setting } from './setting.ts';

const HELP = `
Example: worksync completion bash > ~/.local/share/bash-completion/completions/worksync
         source <(worksync completion zsh)
         worksync completion fish > ~/.config/fish/completions/worksync.fish`;

/** `worksync completion`. */
export function addCompletion(program: Command, _setting: Setting, exit: Exit): void {
  program
    .command('completion')
    .description('print the script by which a shell completes commands and flags')
    .argument('<shell>', `one of: ${SHELLS.join(', ')}`, readShell)
    .addHelpText('after', HELP)
    .exitOverride()
    .action((shell: Shell) => {
      print(scriptFor(shell, program));
      exit(0);
    });
}

function readShell(text: string): Shell {
  const found = SHELLS.find((shell) => shell === text);
  if (found) return found;
  throw new InvalidArgumentError(`expected one of ${SHELLS.join(', ')}${didYouMean(text, SHELLS)}`);
}
