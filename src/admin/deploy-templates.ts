import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { CONFIG_FOLDER } from '../platform/config/config-files.ts';
import { unknownName } from './named.ts';

const TEMPLATES = join(CONFIG_FOLDER, 'deploy');
const SOURCE = dirname(CONFIG_FOLDER);

/** The draft that the files to deploy are for. */
interface DeployedDraft {
  readonly folder: string;
  readonly name: string;
  readonly content: string;
  /** Variables that the draft needs. */
  readonly variables: readonly string[];
}

/** The places in the folder where files of `config/deploy/` go. Throws `usage` for an unknown one. */
export function deployPaths({
  with: names = [],
  folder,
}: {
  readonly with?: readonly string[];
  readonly folder: string;
}): readonly string[] {
  const known = readdirSync(TEMPLATES)
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => basename(file, '.yaml'))
    .sort();
  const missing = names.find((each) => !known.includes(each));
  if (missing !== undefined) throw unknownName('template', missing, known);
  return [...new Set(names)].map((each) => join(folder, 'deploy', `${each}.yaml`));
}

/** Returns the file of `config/deploy/` that goes to this path, with the paths, workspace and variables of the draft. */
export function deployFile(path: string, draft: DeployedDraft): string {
  const name = basename(path);
  const template = readFileSync(join(TEMPLATES, name), 'utf8');
  if (name.startsWith('compose')) return withPaths(template, draft.folder);
  return name.startsWith('kubernetes') ? withWorkspace(template, draft) : template;
}

/** The image is built from the source if that is here, else it is that of a release. */
function withPaths(template: string, folder: string): string {
  const build = existsSync(join(SOURCE, 'Dockerfile'))
    ? `    build: ${relative(join(resolve(folder), 'deploy'), SOURCE)}\n`
    : '';
  return template
    .replace(/^ {4}build: .*\n/m, () => build)
    .replace('../../.env', '../.env')
    .replace('- ../workspaces:', '- ../config/workspaces:')
    .replace('config/deploy/compose.yaml', 'deploy/compose.yaml')
    .replace(', from a clone and without edits', '');
}

/** The workspace file of a manifest, up to the next manifest. */
const WORKSPACE_FILE = /^ {2}team\.yaml: \|\n(?: {4}.*\n)+/m;
/** Variables of the workspace file in the templates. */
const VARIABLES = /WORKSYNC_API_KEY, GITHUB_TOKEN and GITHUB_WEBHOOK_SECRET/;
const SECRET_VALUES = /^stringData:\n(?: {2}.*\n)+/m;

function withWorkspace(template: string, { name, content, variables }: DeployedDraft): string {
  const lines = content
    .trim()
    .split('\n')
    .filter((line) => !line.startsWith('# yaml-language-server:'))
    .map((line) => (line === '' ? '' : `    ${line}`));
  const values = variables.map((each) => `  ${each}: ""\n`).join('');
  const note = `  # As the draft was at first. With the finished file:\n  # kubectl create configmap worksync --from-file=config/workspaces\n`;
  return template
    .replace(WORKSPACE_FILE, () => `${note}  ${name}.yaml: |\n${lines.join('\n')}\n`)
    .replace(SECRET_VALUES, () => `stringData:${values === '' ? ' {}\n' : `\n${values}`}`)
    .replace(VARIABLES, () => variables.join(', ') || 'No variables');
}
