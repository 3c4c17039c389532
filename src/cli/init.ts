import { existsSync } from 'node:fs';
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

/** The state of the draft after the command. */
interface Outcome {
  readonly name: string;
  readonly written: readonly string[];
  /** Placeholders and variables to fill in; empty if the draft is complete. */
  readonly missing: readonly string[];
  readonly findings: readonly Finding[];
  /** Whether worksync reads the configuration from now on. */
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
      if (flags.json) print(JSON.stringify(outcome));
      else await describe(outcome);
      say(nextStep(outcome, flags.folder));
      exit(outcome.findings.some(({ level }) => level === 'error') ? 1 : 0);
    });
  addInitGithubApp(group, setting, exit);
}

async function init(setting: Setting, flags: InitFlags): Promise<Outcome> {
  const { addToEnvFile, missingIn, publishDraft, writeDraft } = await import('../admin/init.ts');
  const wanted = await completed(flags);
  const draft = writeDraft(wanted, flags.force ?? false);
  addToEnvFile(draft, await valuesOf(draft));
  const others = [...draft.written.filter((each) => each !== draft.path), draft.envFile].filter((each) =>
    existsSync(each),
  );
  const unfinished = { name: wanted.name, written: [draft.path, ...others], isLive: false };
  const missing = missingIn(draft);
  if (missing.length > 0) return { ...unfinished, missing, findings: [] };
  const findings = await test(setting, draft, flags.offline ?? false);
  if (findings.some(({ level }) => level === 'error')) return { ...unfinished, missing, findings };
  publishDraft(draft);
  return { name: wanted.name, written: [...others, draft.live], missing, findings, isLive: true };
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

/** Generates the secrets that a person may choose, and asks for all other variables that are not set. */
async function valuesOf(draft: Draft): Promise<Readonly<Record<string, string>>> {
  const { mayBeGenerated, unsetVariables } = await import('../admin/init.ts');
  const { systemRandom } = await import('../platform/lib/random.ts');
  const { true: generated = [], false: others = [] } = Object.groupBy(unsetVariables(draft), (name) =>
    mayBeGenerated(draft, name) ? 'true' : 'false',
  );
  const secrets = generated.map((name) => [name, systemRandom().bytes(32).toString('hex')]);
  const questions = others.map((name) => ({ key: name, text: `${name} (not shown; empty: later)`, isSecret: true }));
  return { ...Object.fromEntries(secrets), ...(process.stdin.isTTY ? await ask(questions) : {}) };
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

function nextStep({ name, written: [draft = ''], missing, isLive }: Outcome, folder: string): string {
  if (isLive) return 'Next: start the daemon with "worksync run".';
  const again = `"worksync init --name ${name}${folder === '.' ? '' : ` --folder ${folder}`}"`;
  if (missing.length === 0) return `Next: correct what is wrong, in ${draft} or .env. Then run ${again}.`;
  return `Next: replace in ${draft} and .env: ${missing.join(', ')}. Then run ${again}.`;
}
