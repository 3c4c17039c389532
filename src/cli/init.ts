import { existsSync, readFileSync } from 'node:fs';
import type { Command } from 'commander';
import type { Draft, FirstConfig } from '../admin/init.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { addInitGithubApp } from './init-github-app.ts';
import type { Question } from './init-questions.ts';
import { type Exit, print, refusingUnknown, type Setting, say } from './setting.ts';
import { gather } from './workspace-command.ts';

const STANDARD = { from: 'github', name: 'team' };

const HELP = `
On a terminal the command asks for what no flag says. It writes a draft, config/<name>.yaml, and .env with the variables that the
draft needs. It makes webhook secrets that you choose yourself. When nothing is left to fill in, it tests workspace and vendors, and
moves the draft to config/workspaces/. Run it again with the same --name to go on with a draft. What --with names goes to deploy/.

Example: worksync init --from github --name team --url https://work.example.com/api/v1`;

interface InitFlags {
  readonly from?: string;
  readonly name?: string;
  readonly url?: string;
  readonly with?: readonly string[];
  readonly set?: readonly string[];
  readonly folder: string;
  readonly force?: boolean;
  readonly offline?: boolean;
  readonly json?: boolean;
}

/** What became of the draft. */
interface Outcome {
  readonly written: readonly string[];
  /** Empty where the draft is complete. */
  readonly missing: readonly string[];
  readonly findings: readonly Finding[];
  readonly isLive: boolean;
}

type Finding = import('../connectors/connector.ts').Finding;

/** `worksync init`: a first configuration, and what it needs at a vendor. */
export function addInit(program: Command, setting: Setting, exit: Exit): void {
  const group = program.command('init').description('set worksync up: workspace, github-app').exitOverride();
  refusingUnknown(group.command('workspace', { isDefault: true }))
    .description('write a first configuration from an example, and test it (the default)')
    .option('--from <example>', `example to start from, such as gitlab, jira or github-app (default: ${STANDARD.from})`)
    .option('--name <name>', `name of the workspace and of its file (default: ${STANDARD.name})`)
    .option('--url <address>', 'address of the workspace API, ending in /api/v1')
    .option('--set <placeholder=value>', 'value for a placeholder of the example; may be repeated', gather)
    .option(
      '--with <template>',
      'also write the files for kubernetes, github-actions, gitlab-ci, …; may be repeated',
      gather,
    )
    .option('--folder <folder>', 'where to write', '.')
    .option('--force', 'overwrite files that are there already; .env is only added to')
    .option('--offline', 'test only the configuration: send no request')
    .option('--json', 'print one JSON object: the files written, and what is missing')
    .addHelpText('after', HELP)
    .exitOverride()
    .action(async (flags: InitFlags) => {
      const outcome = await init(setting, flags);
      const name = flags.name ?? STANDARD.name;
      if (flags.json) print(JSON.stringify(outcome));
      else await describe(outcome);
      say(nextStep(outcome, `worksync init --name ${name}${flags.folder === '.' ? '' : ` --folder ${flags.folder}`}`));
      exit(outcome.findings.some(({ level }) => level === 'error') ? 1 : 0);
    });
  addInitGithubApp(group, setting, exit);
}

async function init(setting: Setting, flags: InitFlags): Promise<Outcome> {
  const { addToEnvFile, leftToReplace, publishDraft, uncommented, writeDraft } = await import('../admin/init.ts');
  const draft = writeDraft(await completed(flags), flags.force ?? false);
  addToEnvFile(draft, await chosenValues(draft));
  const written = [...draft.written, draft.envFile].filter((each) => existsSync(each));
  const { commandEnvironment } = await import('../platform/config/env-file.ts');
  const { variables } = commandEnvironment({ config: draft.path });
  const needed = neededVariables(uncommented(readFileSync(draft.path, 'utf8')));
  const unset = needed.filter((name) => !variables[name] && !variables[`${name}_FILE`]);
  const missing = [...leftToReplace(draft), ...unset];
  if (missing.length > 0) return { written, missing, findings: [], isLive: false };
  const findings = await test(setting, draft, flags.offline ?? false);
  const isLive = findings.every(({ level }) => level !== 'error');
  if (isLive) publishDraft(draft);
  return {
    written: isLive ? [...written.filter((each) => each !== draft.path), draft.live] : written,
    missing,
    findings,
    isLive,
  };
}

/** Variables without a default, such as `NAME` in `${NAME}` and in `${NAME:?message}`. */
function neededVariables(content: string): readonly string[] {
  const references = content.split('${').slice(1);
  const names = references.flatMap((text) => /^(\w{1,100})(?:\}|:\?)/.exec(text)?.[1] ?? []);
  return [...new Set(names)];
}

/** The wanted configuration, with the answers of a person where there is a terminal. */
async function completed({
  set = [],
  with: templates = [],
  folder,
  force = false,
  ...given
}: InitFlags): Promise<FirstConfig> {
  const { draftText, exampleNames, hasDraft, placeholdersIn, SAMPLE_REPOSITORY, EXAMPLE_URL } = await import(
    '../admin/init.ts'
  );
  const { from, name, url } = given;
  const flags = { ...(from && { from }), ...(name && { name }), ...(url && { url }) };
  const values: Record<string, string> = Object.fromEntries(set.map(pairOf));
  const isNew = force || !hasDraft(folder, name ?? STANDARD.name);
  const asked = process.stdin.isTTY && isNew ? await ask(firstQuestions(flags, exampleNames())) : {};
  const wanted = { ...STANDARD, ...flags, ...asked, with: templates, folder, values };
  if (!process.stdin.isTTY) return wanted;
  const content = draftText(wanted, force);
  const open = placeholdersIn(content).filter((each) => !(each in values) && each !== EXAMPLE_URL);
  const questions: Question[] = open.map((each) => ({ key: each, text: `Instead of ${each} (empty: later)` }));
  if (isNew && content.includes(SAMPLE_REPOSITORY))
    questions.push({ key: SAMPLE_REPOSITORY, text: 'Repository', standard: SAMPLE_REPOSITORY });
  Object.assign(values, await ask(questions));
  return wanted;
}

function pairOf(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new SyncError('usage', `--set ${text}: expected <placeholder>=<value>`);
  return [text.slice(0, at), text.slice(at + 1)];
}

function firstQuestions(
  given: Pick<InitFlags, 'from' | 'name' | 'url'>,
  examples: readonly string[],
): readonly Question[] {
  const questions: Question[] = [
    { key: 'from', text: `Start from (${examples.join(', ')})`, standard: STANDARD.from },
    { key: 'name', text: 'Name of the workspace', standard: STANDARD.name },
    { key: 'url', text: 'Address of the workspace API, ending in /api/v1 (empty: later, or none for a trial)' },
  ];
  return questions.filter(({ key }) => given[key as keyof typeof given] === undefined);
}

async function ask(questions: readonly Question[]): Promise<Readonly<Record<string, string>>> {
  const { askQuestions } = await import('./init-questions.ts');
  return askQuestions(questions, process.stdin, process.stderr);
}

/** Makes the webhook secrets that a person may choose, and asks for all other variables that are not set. */
async function chosenValues({ path }: Draft): Promise<Readonly<Record<string, string>>> {
  const { commandEnvironment } = await import('../platform/config/env-file.ts');
  const { systemRandom } = await import('../platform/lib/random.ts');
  const { uncommented } = await import('../admin/init.ts');
  const content = readFileSync(path, 'utf8');
  const { variables } = commandEnvironment({ config: path });
  const unset = neededVariables(uncommented(content)).filter((name) => !variables[name] && !variables[`${name}_FILE`]);
  const recipes = content.split('\n').filter((line) => line.includes('openssl rand'));
  const isMade = (name: string) => recipes.some((line) => line.includes(name));
  const made = unset.filter(isMade).map((name) => [name, systemRandom().bytes(32).toString('hex')]);
  const questions = unset
    .filter((name) => !isMade(name))
    .map((name) => ({ key: name, text: `${name} (not shown; empty: later)`, isSecret: true }));
  return { ...Object.fromEntries(made), ...(process.stdin.isTTY ? await ask(questions) : {}) };
}

/** Reads the draft as the daemon would, and asks the workspace and the vendors, without a data folder of its own. */
async function test(setting: Setting, { path }: Draft, isOffline: boolean): Promise<readonly Finding[]> {
  const { openSession } = await import('./session.ts');
  const { checkHere } = await import('./check.ts');
  const flags = { config: path, data: ':memory:init' };
  const session = openSession({ ...setting, flags, logLevel: () => 'silent' });
  if (isOffline) return [];
  const options = { ...session.options, store: undefined };
  const { found } = await checkHere({ ...session, options });
  const names = session.config.workspaces.map(({ name }) => name);
  // The database of this test is no concern of the daemon.
  return found.filter(({ subject }) => names.some((name) => subject.startsWith(name)));
}

async function describe({ written, findings }: Outcome): Promise<void> {
  print(written.join('\n'));
  if (findings.length === 0) return;
  const { describeFindings } = await import('./check.ts');
  print(describeFindings(findings));
}

function nextStep({ written: [draft = ''], missing, isLive }: Outcome, again: string): string {
  if (isLive) return 'Next: start the daemon with "worksync run".';
  const remedy =
    missing.length > 0
      ? `replace in ${draft} and .env: ${missing.join(', ')}. Then run`
      : 'correct what is wrong. Then run';
  return `Next: ${remedy} "${again}".`;
}
