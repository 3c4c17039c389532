import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { SyncError } from '../../model/errors.ts';
import { CONFIG_FOLDER } from '../../platform/config/config-files.ts';
import { jobConfig, writtenSettings } from '../../platform/config/yaml-document.ts';
import { PROGRAM } from '../../platform/lib/own-program.ts';
import { unknownName } from '../named.ts';

const TEMPLATES = join(CONFIG_FOLDER, 'deploy');
const SOURCE = dirname(CONFIG_FOLDER);
/** The template for systemd. Its file keeps the ending that systemd requires. */
const UNIT = { name: 'systemd', file: 'worksync.service' };

/** The draft that the files to deploy are for. */
interface DeployedDraft {
  readonly folder: string;
  readonly name: string;
  readonly content: string;
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
  const files = readdirSync(TEMPLATES).filter((file) => /\.(?:yaml|service)$/.test(file));
  const known = new Map(files.map((file) => [file === UNIT.file ? UNIT.name : basename(file, '.yaml'), file]));
  const missing = names.find((each) => !known.has(each));
  if (missing !== undefined) throw unknownName('template', missing, [...known.keys()].sort());
  return [...new Set(names)].map((each) => join(folder, 'deploy', known.get(each) ?? ''));
}

/**
 * Returns the file of `config/deploy/` that goes to this path, with the paths, workspace, variables and image of the draft. Throws
 * `usage` if a draft with an embedded workspace cannot be deployed in this way.
 */
export function deployFile(path: string, draft: DeployedDraft): string {
  const name = basename(path);
  const template = withImage(readFileSync(join(TEMPLATES, name), 'utf8'));
  if (/-(?:service|replicas)\.yaml$/.test(name)) refuseEmbedded(basename(name, '.yaml'), draft);
  if (name.startsWith('compose')) return withPaths(template, draft.folder);
  if (name.startsWith('kubernetes')) return withWorkspace(template, draft);
  return name.endsWith('-service.yaml') ? withJob(template, draft) : template;
}

/** Throws `usage` for an embedded workspace: replicas cannot share its data folder, and a job loses it at its end. */
function refuseEmbedded(template: string, { content }: DeployedDraft): void {
  if (writtenSettings(content).workspace?.['url'] !== undefined) return;
  const message = `--with ${template} needs a workspace on a server, and the draft has no workspace.url`;
  throw new SyncError('usage', message, { hint: 'Start from another example, such as github. Nothing was written.' });
}

function withImage(template: string): string {
  const image = imageOf(JSON.parse(readFileSync(join(PROGRAM, 'package.json'), 'utf8')));
  if (image === undefined) return template;
  return template.replace(/^( *image: )worksync:.*$/m, `$1${image}`).replace('the name of the image', image);
}

interface Manifest {
  readonly version: string;
  readonly repository?: { readonly url?: string };
}

/** The image of the release that the program is part of. Undefined in a clone: only a release names its repository. */
function imageOf({ version, repository }: Manifest): string | undefined {
  const [, name] = /github\.com\/([\w-]+\/[\w.-]+)\.git$/.exec(repository?.url ?? '') ?? [];
  return name && `ghcr.io/${name.toLowerCase()}:${version}`;
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
/** The lines that name the files of variables. */
const SECRET_FILES = /^( *)- \{ name: WORKSYNC_API_KEY_FILE,.*\n(?: *- \{ name: \w+_FILE,.*\n)*/m;

function withWorkspace(template: string, { name, content, variables }: DeployedDraft): string {
  const lines = content
    .replace(/^# yaml-language-server:.*\n(?:#\n)?/, '')
    .trim()
    .split('\n')
    .map((line) => (line === '' ? '' : `    ${line}`));
  const note =
    '  # A copy of the first draft. When your file is finished, remove this ConfigMap and run:\n  # kubectl create configmap worksync --from-file=config/workspaces\n';
  return template
    .replace(WORKSPACE_FILE, () => `${note}  ${name}.yaml: |\n${lines.join('\n')}\n`)
    .replace(SECRET_FILES, (_lines, indent: string) =>
      variables.map((each) => `${indent}- { name: ${each}_FILE, value: /secrets/${each} }\n`).join(''),
    );
}

/** The first line of the configuration of a CI job. */
const JOB_CONFIG = 'name: ci';
const API_KEY = 'WORKSYNC_API_KEY';
/** The lines that give variables to the container. */
const JOB_VARIABLES = /^( *)WORKSYNC_API_KEY: (.+)\n *\w+_TOKEN: .+\n/m;

/** Replaces the configuration of a CI job: its first line, and those that are indented as far or further. */
function withJobConfig(template: string, text: string): string {
  const lines = template.split('\n');
  const first = lines.findIndex((line) => line.trim() === JOB_CONFIG);
  if (first === -1) return template;
  const indent = lines[first]?.slice(0, -JOB_CONFIG.length) ?? '';
  const end = lines.findIndex((line, index) => index > first && !line.startsWith(indent));
  const indented = text.trimEnd().replaceAll(/^(?=.)/gm, indent);
  return lines.toSpliced(first, (end === -1 ? lines.length : end) - first, indented).join('\n');
}

function withJob(template: string, { content, variables }: DeployedDraft): string {
  const settings = writtenSettings(content);
  const text = jobConfig('ci', settings);
  const used = variables.filter((each) => text.includes(`\${${each}`));
  const [, key = ''] = /^\$\{(\w+)/.exec(String(settings.workspace?.['apiKey'])) ?? [];
  return withJobConfig(template, text)
    .replace(JOB_VARIABLES, (_lines, indent: string, value: string) =>
      used.map((each) => `${indent}${each}: ${valueInJob(each, value)}\n`).join(''),
    )
    .replaceAll('Bearer $WORKSYNC_API_KEY', () => `Bearer $${key}`);
}

/**
 * Returns the value that a job gives to a variable.
 *
 * @param template the value that the template gives to WORKSYNC_API_KEY
 */
function valueInJob(variable: string, template: string): string {
  if (!template.includes('secrets.')) return template.replace(API_KEY, variable);
  // GitHub makes this token itself, and no secret of a repository may begin with its name.
  return variable === 'GITHUB_TOKEN'
    ? template.replace(`secrets.${API_KEY}`, 'github.token')
    : template.replace(API_KEY, variable.replace(/^GITHUB_/, 'WORKSYNC_GITHUB_'));
}
