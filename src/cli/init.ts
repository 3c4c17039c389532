import type { Command } from 'commander';
import { addInitGithubApp } from './init-github-app.ts';
import type { Question } from './init-questions.ts';
import { type Exit, print, refusingUnknown, type Setting, say } from './setting.ts';
import { gather } from './workspace-command.ts';

const STANDARD = { from: 'github', name: 'team' };

const HELP = `
On a terminal the command asks for what no flag says. It writes config/workspaces/<name>.yaml, with the schema that editors complete
from, and .env.example with the variables that the file needs. What --with names goes to deploy/; each file says at its top where
it belongs. It overwrites nothing without --force.

Example: worksync init workspace --from github --name team --url https://work.example.com/api/v1`;

interface InitFlags {
  readonly from?: string;
  readonly name?: string;
  readonly url?: string;
  readonly with?: readonly string[];
  readonly folder: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** `worksync init`: a first configuration, and what it needs at a vendor. */
export function addInit(program: Command, setting: Setting, exit: Exit): void {
  const group = program.command('init').description('set worksync up: workspace, github-app').exitOverride();
  refusingUnknown(group.command('workspace', { isDefault: true }))
    .description('write a first configuration from an example: workspace file and .env.example (the default)')
    .option('--from <example>', `example to start from, such as gitlab, jira or github-app (default: ${STANDARD.from})`)
    .option('--name <name>', `name of the workspace and of its file (default: ${STANDARD.name})`)
    .option('--url <address>', 'address of the workspace API, ending in /api/v1')
    .option(
      '--with <template>',
      'also write the files for kubernetes, github-actions, gitlab-ci, …; may be repeated',
      gather,
    )
    .option('--folder <folder>', 'where to write', '.')
    .option('--force', 'overwrite files that are there already')
    .option('--json', 'print one JSON object: the files written')
    .addHelpText('after', HELP)
    .exitOverride()
    .action(async ({ folder, force = false, json, ...flags }: InitFlags) => {
      const { exampleNames, writeFirstConfig } = await import('../admin/init.ts');
      const asked = process.stdin.isTTY ? await answers(flags, exampleNames()) : {};
      const written = writeFirstConfig({ ...STANDARD, ...flags, ...asked, folder }, force);
      print(json ? JSON.stringify({ written }) : written.join('\n'));
      const [file = ''] = written;
      say(`Next: edit ${file}, set the variables of .env.example, then run "worksync check --config ${file}".`);
      exit(0);
    });
  addInitGithubApp(group, setting, exit);
}

async function answers({ from, name, url }: Omit<InitFlags, 'folder'>, examples: readonly string[]) {
  const { askQuestions } = await import('./init-questions.ts');
  const questions: Question[] = [];
  if (from === undefined)
    questions.push({ key: 'from', text: `Start from (${examples.join(', ')})`, standard: STANDARD.from });
  if (name === undefined) questions.push({ key: 'name', text: 'Name of the workspace', standard: STANDARD.name });
  if (url === undefined) questions.push({ key: 'url', text: 'Address of the workspace API, ending in /api/v1' });
  return askQuestions(questions, process.stdin, process.stderr);
}
