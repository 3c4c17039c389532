import { type Command, InvalidArgumentError, type Option } from 'commander';
import { didYouMean } from '../platform/lib/text.ts';
import { type AddCommands, print } from './command.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

const HELP = `
Example: worksync completion bash > ~/.local/share/bash-completion/completions/worksync
         source <(worksync completion zsh)
         worksync completion fish > ~/.config/fish/completions/worksync.fish`;

export const addCompletion: AddCommands = (program) => {
  program
    .command('completion')
    .description('print the script by which a shell completes commands and flags')
    .argument('<shell>', `one of: ${SHELLS.join(', ')}`, readShell)
    .addHelpText('after', HELP)
    .exitOverride()
    .action((shell: Shell) => {
      print(scriptFor(shell, program));
    });
};

function readShell(text: string): Shell {
  const found = SHELLS.find((shell) => shell === text);
  if (found) return found;
  throw new InvalidArgumentError(`expected one of ${SHELLS.join(', ')}${didYouMean(text, SHELLS)}`);
}

/** A command as a shell completes it. */
interface Place {
  /** Words after `worksync`: none for the program itself. */
  readonly path: readonly string[];
  readonly commands: readonly Command[];
  readonly options: readonly Option[];
}

/** Returns the script of a shell, made from the commands themselves. It starts no process while a person types. */
export function scriptFor(shell: Shell, program: Command): string {
  const places = placesOf(program, []);
  if (shell === 'fish') return fishScript(places);
  // Zsh runs what was written for bash.
  return shell === 'zsh' ? `autoload -U +X bashcompinit && bashcompinit\n${bashScript(places)}` : bashScript(places);
}

function placesOf(command: Command, path: readonly string[]): Place[] {
  const commands = command.commands.filter((each) => each.name() !== 'help');
  const options = command.createHelp().visibleOptions(command);
  return [{ path, commands, options }, ...commands.flatMap((each) => placesOf(each, [...path, each.name()]))];
}

function bashScript(places: readonly Place[]): string {
  const known = places.filter(({ path }) => path.length > 0).map(({ path }) => `'${path.join(' ')}'`);
  const cases = places.map(({ path, commands, options }) => {
    const words = [...commands.map((each) => each.name()), ...options.flatMap(flagsOf)];
    return `    '${path.join(' ')}') words='${words.join(' ')}' ;;`;
  });
  return `_worksync() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" at='' words='' next i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="\${at:+$at }\${COMP_WORDS[i]}"
    case "$next" in
    ${known.join(' | ')}) at="$next" ;;
    esac
  done
  case "$at" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _worksync worksync`;
}

function flagsOf({ short, long }: Option): string[] {
  return [short, long].filter((flag) => flag !== undefined);
}

function fishScript(places: readonly Place[]): string {
  return places.flatMap(fishLines).join('\n');
}

function fishLines({ path, commands, options }: Place): string[] {
  const names = commands.map((each) => each.name());
  const seen = path.map((word) => `__fish_seen_subcommand_from ${word}`);
  const notBelow = names.length === 0 ? [] : [`not __fish_seen_subcommand_from ${names.join(' ')}`];
  const when = quoted([...seen, ...notBelow].join('; and '));
  const begin = `complete -c worksync -n ${when}`;
  return [
    ...commands.map((each) => `${begin} -f -a ${each.name()} -d ${quoted(each.description())}`),
    ...options.map(
      ({ short, long, description, required }) =>
        begin +
        (short ? ` -s ${short.slice(1)}` : '') +
        (long ? ` -l ${long.slice(2)}` : '') +
        `${required ? ' -r' : ''} -d ${quoted(description)}`,
    ),
  ];
}

/** For fish, which reads \\\\ and \\' between single quotes. */
function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
