import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { SyncError } from '../../model/errors.ts';
import { CONFIG_FOLDER, commandEnvironment } from '../../platform/config/config-files.ts';
import { displayName, type LoadInput, readConfigSource, readConfigText } from '../../platform/config/load.ts';
import { name as validName } from '../../platform/config/values.ts';
import { shellWord } from '../../platform/lib/own-program.ts';
import { unknownName } from '../named.ts';
import { deployFile, deployPaths } from './deploy-templates.ts';

export interface FirstConfig {
  /** A file of `config/examples/`, without its ending. */
  readonly from: string;
  /** Name of the workspace, and so of its file. */
  readonly name: string;
  /** Base address of the workspace API; absent: the example's address stays, to be replaced by hand. */
  readonly url?: string;
  /** Files of `config/deploy/`, without their endings: how to run it, and what CI does with it. */
  readonly with?: readonly string[];
  /** Values for the placeholders of the example and of the files to deploy, such as `your-group/your-project`. */
  readonly values?: Readonly<Record<string, string>>;
  readonly folder: string;
}

/** A configuration that is not used yet, because it lies outside the folder that worksync reads. */
export interface Draft {
  /** `config/<name>.yaml` */
  readonly path: string;
  /** `config/workspaces/<name>.yaml`, where it goes when it is complete. */
  readonly live: string;
  readonly envFile: string;
  readonly written: readonly string[];
}

const EXAMPLES = join(CONFIG_FOLDER, 'examples');
/** Every example that talks to a workspace names this one. */
export const EXAMPLE_URL = 'https://work.example.com/api/v1';
const SCHEMA_LINE = /^# yaml-language-server: .*$/m;

export function exampleNames(): readonly string[] {
  return readdirSync(EXAMPLES)
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => basename(file, '.yaml'))
    .sort();
}

/** The text that a draft starts from: the draft that is there already, else the example. Throws `usage` for an unknown example. */
export function draftText({ from, name, folder }: FirstConfig, overwrite: boolean): string {
  const { path } = placesOf(folder, name);
  return existsSync(path) && !overwrite ? readConfigSource(path) : adapted(readExample(from), { from, name, folder });
}

/**
 * The example for this workspace: with its name in the addresses of webhooks, and with variables of its own where another workspace of
 * the folder uses the same ones, because the key of one workspace must not reach the address of another.
 */
function adapted(example: string, { from, name, folder }: FirstConfig): string {
  const taken = new Set(otherFiles(folder, name).flatMap((path) => neededVariables(readConfigSource(path))));
  const suffix = name.toUpperCase().replaceAll('-', '_');
  return example
    .replaceAll('Copy it to config/workspaces/, then set', 'Set')
    .replaceAll(`/webhooks/${from}/`, `/webhooks/${name}/`)
    .replaceAll(`"${from}"`, `"${name}"`)
    .replaceAll(/\w+/g, (word) => (taken.has(word) ? `${word}_${suffix}` : word));
}

/** Drafts and workspace files of the folder, without those of this name. */
function otherFiles(folder: string, name: string): readonly string[] {
  return [join(folder, 'config'), join(folder, 'config/workspaces')]
    .filter((each) => existsSync(each))
    .flatMap((each) => readdirSync(each).map((file) => join(each, file)))
    .filter((path) => path.endsWith('.yaml') && ![name, 'default'].includes(basename(path, '.yaml')));
}

export function hasDraft(folder: string, name: string): boolean {
  return existsSync(placesOf(folder, name).path);
}

function placesOf(folder: string, name: string) {
  refuseWrongName('--name', name);
  return { path: join(folder, 'config', `${name}.yaml`), live: join(folder, 'config/workspaces', `${name}.yaml`) };
}

/** Variables of a draft that neither the environment nor `.env` sets, apart from those with a default. */
export function unsetVariables({ path }: Draft): readonly string[] {
  const { variables } = commandEnvironment({ config: path });
  return neededVariables(readConfigSource(path)).filter((name) => !variables[name] && !variables[`${name}_FILE`]);
}

/** `NAME` of `${NAME}` and of `${NAME:?message}`. */
function neededVariables(content: string): readonly string[] {
  const references = uncommented(content).split('${').slice(1);
  return [...new Set(references.flatMap((text) => /^(\w{1,100})(?:\}|:\?)/.exec(text)?.[1] ?? []))];
}

/**
 * Returns a secret that a person may choose, which a comment of the draft says by `openssl rand`; undefined if the provider makes it.
 *
 * @param bytes of the secret
 */
export function generatedSecret({ path }: Draft, variable: string, bytes: Buffer): string | undefined {
  const lines = readConfigSource(path).split('\n');
  const line = lines.find((each) => each.includes(variable) && each.includes('openssl rand'));
  if (line === undefined) return undefined;
  return line.includes('whsec_') ? `whsec_${bytes.toString('base64')}` : bytes.toString('hex');
}

function readExample(name: string): string {
  const unknown = unknownExample(name);
  if (unknown) throw unknown;
  return readConfigSource(join(EXAMPLES, `${name}.yaml`));
}

function unknownExample(name: string): SyncError | undefined {
  return exampleNames().includes(name) ? undefined : unknownName('example', name, exampleNames());
}

/** Returns why an answer of a person cannot be used; undefined where it can. */
export const problemOfAnswer = {
  from: (answer: string) => unknownExample(answer)?.message,
  name(answer: string, { folder, force = false }: { readonly folder: string; readonly force?: boolean }) {
    const problem = problemOfName(answer);
    if (problem !== undefined || force) return problem;
    const { live } = placesOf(folder, answer);
    return existsSync(live) ? `${live} is already there: choose another name` : undefined;
  },
  url: (answer: string) => (isApiAddress(answer) ? undefined : WRONG_ADDRESS),
  /** Compares the problems of the draft with those that it has with this value. */
  value(answer: string, { content, placeholder, ...known }: Placeholder & ReadBy) {
    const present = problemsIn(content, known);
    const withAnswer = problemsIn(withValue(content, placeholder, answer), known);
    return withAnswer.find((problem) => !present.includes(problem));
  },
  secret: (answer: string) => (quoteFor(answer) === undefined ? TOO_MANY_QUOTES : undefined),
};

interface Placeholder {
  readonly content: string;
  readonly placeholder: string;
}

type ReadBy = Pick<LoadInput, 'connectors' | 'apiOverrides'>;

const WRONG_ADDRESS = 'expected the https address of the workspace API, ending in /api/v1';
const TOO_MANY_QUOTES =
  'a value with all three kinds of quotes cannot be written to .env: put it into a file, and add _FILE to the variable';

/** Leaves out the places in the text, which a person did not write. */
function problemsIn(content: string, known: ReadBy): readonly string[] {
  try {
    readConfigText(content, known, '');
    return [];
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return error.message.split('\n').map((line) => line.replace(/^[\d:]+ /, ''));
  }
}

/**
 * Writes the draft of a workspace file, and what `with` names into `deploy/`: each file says at its top where it belongs. In a draft
 * that is there already it only replaces the placeholders.
 *
 * @param overwrite whether files that are there already are replaced
 * @throws `usage` for an unknown example, template or placeholder, or a wrong name; `conflict` where the workspace is configured already
 */
export function writeDraft(wanted: FirstConfig, overwrite: boolean): Draft {
  const { name, url, values = {}, folder } = wanted;
  const { path, live } = placesOf(folder, name);
  if (url !== undefined && !isApiAddress(url)) throw new SyncError('usage', `--url ${url}: ${WRONG_ADDRESS}`);
  const text = draftText(wanted, overwrite);
  refusePresent(wanted, overwrite);
  const content = withValues(text, { ...values, ...(url !== undefined && { [EXAMPLE_URL]: url }) });
  const draft = { folder, name, content, variables: neededVariables(content) };
  const deployed = deployPaths(wanted).map((each) => ({ path: each, content: deployFile(each, draft) }));
  const { ofDraft, ofDeployed } = valuesByPlace(values, text, deployed);
  refuseWithoutEffect(text, ofDraft);
  if (url !== undefined) refuseOtherUrl(wanted, { draft: text, path, isNew: overwrite || !existsSync(path) });
  const files = [
    { path, content: withSchema(content, path) },
    ...deployed.map((file) => ({ ...file, content: withValues(file.content, ofDeployed) })),
  ];
  for (const file of files) {
    mkdirSync(dirname(file.path), { recursive: true });
    writeFileSync(file.path, file.content);
  }
  return { path, live, envFile: join(folder, '.env'), written: files.map((file) => file.path) };
}

/** Throws `usage` for an address that has no effect on a draft, because the draft has another one already, or none. */
function refuseOtherUrl(
  { from, url = '' }: FirstConfig,
  { draft, path, isNew }: { readonly draft: string; readonly path: string; readonly isNew: boolean },
): void {
  if (draft.includes(EXAMPLE_URL) || uncommented(draft).includes(url)) return;
  if (!isNew)
    throw new SyncError('usage', `--url ${url} has no effect on ${path}`, {
      hint: 'Edit workspace.url in this file, then run the command without --url.',
    });
  throw new SyncError('usage', `--url ${url} has no effect on the example ${from}, which does not ask for an address`, {
    hint: 'Leave --url out, or choose another example with --from.',
  });
}

type Values = Readonly<Record<string, string>>;

/** Separates the values for placeholders that only the files to deploy have. */
function valuesByPlace(values: Values, draft: string, deployed: readonly { readonly content: string }[]) {
  const isOfDeployed = ([placeholder]: [string, string]) =>
    !draft.includes(placeholder) && deployed.some(({ content }) => content.includes(placeholder));
  const { ofDraft = [], ofDeployed = [] } = Object.groupBy(Object.entries(values), (each) =>
    isOfDeployed(each) ? 'ofDeployed' : 'ofDraft',
  );
  return { ofDraft: Object.fromEntries(ofDraft), ofDeployed: Object.fromEntries(ofDeployed) };
}

export function refusePresent(wanted: FirstConfig, overwrite: boolean): void {
  const { live } = placesOf(wanted.folder, wanted.name);
  const present = [live, ...deployPaths(wanted)].filter((each) => existsSync(each));
  if (present.length === 0 || overwrite) return;
  throw new SyncError('conflict', `already there: ${present.join(', ')}`, {
    hint: 'Name another folder with --folder, or replace them with --force. Nothing was written.',
  });
}

function withSchema(content: string, path: string): string {
  const schema = relative(dirname(path), join(CONFIG_FOLDER, 'schema.json'));
  return content.replace(SCHEMA_LINE, () => `# yaml-language-server: $schema=${schema}`);
}

function isApiAddress(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.pathname.endsWith('/api/v1') && url.search === '';
}

/**
 * Adds variables to `.env`, which only its owner may read. A variable that the file names already stays as it is; one without a
 * value stays empty, to be filled in.
 *
 * @returns whether it added any
 */
export function addToEnvFile({ envFile, path }: Draft, values: Readonly<Record<string, string>>): boolean {
  const present = existsSync(envFile) ? readConfigSource(envFile) : '';
  const known = parseEnv(present);
  const fresh = neededVariables(readConfigSource(path)).filter(
    (name) => !(name in known) && !(`${name}_FILE` in known),
  );
  if (fresh.length === 0) return false;
  const head = present === '' ? HEAD : `${present.trimEnd()}\n`;
  writeFileSync(envFile, `${head}${fresh.map((name) => `${name}=${quoted(values[name] ?? '')}\n`).join('')}`, {
    mode: 0o600,
  });
  return true;
}

const HEAD = '# In place of a variable, its name with _FILE may hold the path of a file with the value.\n';

function quoted(value: string): string {
  const quote = quoteFor(value);
  if (quote === undefined) throw new SyncError('usage', TOO_MANY_QUOTES);
  return `${quote}${value}${quote}`;
}

function quoteFor(value: string): string | undefined {
  if (/^[\w./:@+=-]*$/.test(value)) return '';
  return ["'", '"', '`'].find((each) => !value.includes(each));
}

/** The variable of the workspace key, if it is in `.env`, where it can be replaced. */
export function replaceableKey({ path }: Draft): string | undefined {
  const [, name = ''] = /^ +apiKey: *\$\{(\w{1,100})\}/m.exec(readConfigSource(path)) ?? [];
  return commandEnvironment({ config: path }).file?.used.includes(name) ? name : undefined;
}

export function replaceInEnvFile({ envFile }: Draft, name: string, value: string): void {
  const line = new RegExp(`^([ \\t]*(?:export[ \\t]+)?${name}[ \\t]*=).*$`, 'gm');
  const changed = readConfigSource(envFile).replaceAll(line, (_, start: string) => `${start}${quoted(value)}`);
  writeFileSync(envFile, changed);
}

export function missingIn(draft: Draft): readonly string[] {
  return [...placeholdersIn(readConfigSource(draft.path)), ...unsetVariables(draft)];
}

/** The placeholder of the host, in a draft that still uses the vendor's. */
export function openHost(path: string): string | undefined {
  return hostPlaceholder(readConfigSource(path));
}

export function publishDraft({ path, live }: Draft): void {
  mkdirSync(dirname(live), { recursive: true });
  writeFileSync(live, withSchema(readConfigSource(path), live));
  rmSync(path);
}

export function commandFor(draft: string): string {
  const folder = displayName(dirname(dirname(resolve(draft))));
  const flag = folder === '' ? '' : ` --folder ${shellWord(folder)}`;
  return `"worksync init --name ${basename(draft, '.yaml')}${flag}"`;
}

/** Returns why the configuration would refuse this name; undefined if it would not. */
function problemOfName(given: string): string | undefined {
  return validName.safeParse(given).error?.issues[0]?.message;
}

/** Throws `usage` where the configuration would refuse what this flag names. */
export function refuseWrongName(flag: string, given: string): void {
  const reason = problemOfName(given);
  if (reason !== undefined) throw new SyncError('usage', `${flag} ${given}: ${reason}`);
}

/** The example's repository, which works unchanged. */
export const SAMPLE_REPOSITORY = 'octokit/webhooks.js';
/** Separates the values of a workspace file. */
const BETWEEN_VALUES = /[\s"'`,[\]{}]+/;
/** A key that an example leaves out, such as `# host: gitlab.example.com`. */
const COMMENTED_KEY = /^(\s*)# ([a-z]\w*: .*)$/;
const COMMENTED_HOST = /^[ \t]*# host: (\S+)$/m;

/** The values of a draft that everybody must replace, apart from the address of the workspace. */
export function placeholdersIn(content: string): readonly string[] {
  return placeholdersAmong(valuesOf(uncommented(content)));
}

/** The host of a server of one's own, in a comment; undefined in a draft that has no such key. */
export function hostPlaceholder(content: string): string | undefined {
  return COMMENTED_HOST.exec(content)?.[1];
}

function uncommented(content: string): string {
  return content
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
    .join('\n');
}

/** Puts a value in the place of a placeholder. Uncomments the keys that have it, if it stands in comments only. */
function withValue(content: string, placeholder: string, value: string): string {
  const isInUse = uncommented(content).includes(placeholder);
  const lines = content.split('\n').map((line) => {
    const [, indent, key = ''] = COMMENTED_KEY.exec(line) ?? [];
    return !isInUse && valuesOf(key).includes(placeholder) ? `${indent}${key}` : line;
  });
  return lines.join('\n').replaceAll(placeholder, () => value);
}

function withValues(content: string, values: Readonly<Record<string, string>>): string {
  return Object.entries(values).reduce(
    (filled, [placeholder, value]) => withValue(filled, placeholder, value),
    content,
  );
}

/** Throws `usage` for a value that has no effect in the draft. Accepts a value that an earlier run has put in place of its placeholder. */
function refuseWithoutEffect(content: string, values: Readonly<Record<string, string>>): void {
  const active = uncommented(content);
  const wasSet = (placeholder: string, value: string) =>
    (isPlaceholder(placeholder) || placeholder === SAMPLE_REPOSITORY) && value !== '' && active.includes(value);
  const lost = Object.entries(values).find(
    ([placeholder, value]) =>
      uncommented(withValue(content, placeholder, value)) === active && !wasSet(placeholder, value),
  );
  if (lost === undefined) return;
  const known = [
    ...placeholdersAmong([...valuesOf(active), ...content.split('\n').flatMap(commentedValues)]),
    ...(active.includes(SAMPLE_REPOSITORY) ? [SAMPLE_REPOSITORY] : []),
  ];
  throw new SyncError('usage', `--set ${lost.join('=')}: the draft has no placeholder ${lost[0]}`, {
    hint: `Its placeholders: ${known.join(', ') || 'none'}.`,
  });
}

function commentedValues(line: string): readonly string[] {
  return valuesOf(COMMENTED_KEY.exec(line)?.[2] ?? '');
}

function valuesOf(text: string): readonly string[] {
  return text.split(BETWEEN_VALUES).map((value) => value.replace(/:$/, ''));
}

function placeholdersAmong(values: readonly string[]): readonly string[] {
  const found = new Set(values.filter(isPlaceholder));
  return [...found].filter((text) => ![...found].some((other) => text.startsWith(`${other}/`)));
}

/** A UUID that an example has in place of an id of its own. */
const ZERO_UUID = /^0{8}-0{4}-[04]0{3}-[08]0{3}-0{12}$/;

function isPlaceholder(text: string): boolean {
  return text.startsWith('your-') || text === 'YOURKEY' || text.includes('example.com') || ZERO_UUID.test(text);
}
