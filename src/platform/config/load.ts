import { basename, extname, isAbsolute, relative } from 'node:path';
import type { ZodType } from 'zod';
import { SyncError } from '../../model/errors.ts';
import { createGlob } from '../lib/pattern.ts';
import { diskFiles, type FileFault, type Files } from '../lib/regular-files.ts';
import { nearest } from '../lib/text.ts';
import { type ConfigPlace, configFiles } from './config-files.ts';
import { connectionConfig } from './connection.ts';
import { CONFIG_TEXT } from './daemon-options.ts';
import {
  createVariables,
  type Environment,
  type EnvSource,
  literalSecrets,
  MAX_SECRET_BYTES,
  noVariables,
  type Variables,
} from './interpolate.ts';
import { type ConnectorOptions, type WorkspaceConfig, workspaceFile } from './schema.ts';
import { validate } from './validate.ts';
import { name as workspaceName } from './values.ts';
import {
  type ConfigDocument,
  MOST_PROBLEMS,
  type Problem,
  pathText,
  problemLines,
  readDocument,
  readDocuments,
} from './yaml-document.ts';

export interface LoadInput extends ConfigPlace {
  /** One workspace or several, as YAML documents: comes before `path`. */
  readonly text?: string;
  readonly env: Environment;
  /** The `.env` from which some of the variables come. */
  readonly envFile?: EnvSource | undefined;
  readonly connectors: readonly ConnectorOptions[];
  /** Schema of `workspace.api`. */
  readonly apiOverrides: ZodType;
  /** The source of files; absent: the disk. */
  readonly files?: Files;
}

export interface LoadedConfig {
  readonly workspaces: readonly WorkspaceConfig[];
  /** Workspaces whose file cannot be read or is invalid. The others still start. */
  readonly broken: readonly BrokenConfig[];
  /** Values that must never be shown: those of variables, and literal keys and tokens. */
  readonly secrets: readonly string[];
  /** Files that secrets were read from. */
  readonly secretSources: readonly string[];
  readonly warnings: readonly string[];
}

export interface BrokenConfig {
  /** The name in the file if known, else the name of the file. */
  readonly name: string;
  readonly file: string;
  /** `config_invalid` with one line per problem, or `config_unreadable`. */
  readonly error: SyncError;
}

const LARGEST_FILE = 1_048_576;

/**
 * Bytes of all files together above which a running daemon reads its configuration in another thread: the parser needs up to 50
 * ms for this size, whatever the content.
 */
export const LARGE_CONFIG = 8_192;

/** Returns the bytes of all files, or of the text; 0 if they cannot be read. */
export function configSize(input: Pick<LoadInput, 'path' | 'text' | 'configFolder'>, files: Files): number {
  if (input.text !== undefined) return Buffer.byteLength(input.text);
  return attempt(() => configFiles(input, files), [])
    .map((file) => attempt(() => files.read(file, LARGEST_FILE).bytes.length, 0))
    .reduce((sum, size) => sum + size, 0);
}

/** Reads all files that `loadConfig` needs: those of the configuration, and of the secrets that it names. */
export function readAhead(input: Pick<LoadInput, 'path' | 'text' | 'configFolder' | 'env'>, files: Files): void {
  const paths = input.text === undefined ? attempt(() => configFiles(input, files), []) : [];
  const contents = paths.map((file) => attempt(() => files.read(file, LARGEST_FILE).bytes, NOTHING));
  const texts = input.text === undefined ? contents : [Buffer.from(input.text)];
  for (const [variable, path] of Object.entries(input.env)) {
    const name = variable.replace(/_FILE$/, '');
    if (name !== variable && path && texts.some((text) => text.includes(name)))
      attempt(() => files.read(path, MAX_SECRET_BYTES), undefined);
  }
}

const NOTHING = Buffer.alloc(0);

/** Returns `otherwise` if the read fails, because `loadConfig` reports the fault. */
function attempt<Result>(read: () => Result, otherwise: Result): Result {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

/**
 * Reads and checks every workspace, from files or from the text of the variable: each line of a problem is `file:line:column:
 * message (did you mean "x"?)`. Throws `config_invalid` if none is valid, with the problems of all; `config_unreadable` if the
 * path cannot be read or has no file.
 */
export function loadConfig(input: LoadInput): LoadedConfig {
  const { files = diskFiles } = input;
  const variables = createVariables(input.env, input.envFile, files);
  const schema = workspaceFile(input.apiOverrides);
  const given = { variables, connectors: input.connectors, schema, files };
  const read =
    input.text === undefined
      ? configFiles(input, files).map((file) => readFile(file, given))
      : readVariable(input.text, given);
  const problems = [
    ...read.flatMap((workspace) => workspace.problems),
    ...reservedNames(read),
    ...repeatedNames(read),
    ...sharedWorkflows(read),
  ];
  // One fault in a text with several workspaces breaks all of them: the text cannot be corrected while the daemon runs.
  const ofFile = Map.groupBy(problems, ({ file }) => file);
  const broken = [...Map.groupBy(read, ({ file }) => file)].flatMap(([file, own]) =>
    brokenBy(own, ofFile.get(file) ?? [], variables),
  );
  const isBroken = new Set(broken.map(({ file }) => file));
  const workspaces = read.flatMap(({ file, config }) => (isBroken.has(file) ? [] : (config ?? [])));
  if (workspaces.length === 0) throw together(broken);
  return {
    workspaces,
    broken,
    secrets: [...new Set([...variables.secrets, ...read.flatMap(({ document }) => literalSecrets(document?.data))])],
    secretSources: [...variables.files],
    warnings: [
      ...variables.warnings,
      ...problemLines(read.flatMap(({ notices = [] }) => notices)),
      ...workspaces.flatMap(clearTextWarning),
      ...workspaces.flatMap((workspace) => secretWarnings(workspace, input.connectors)),
      ...sharedQuotaWarnings(workspaces),
    ],
  };
}

/** Reads one workspace from a text that is only tried: no variable is read. Throws `config_invalid`. */
export function readConfigText(
  text: string,
  { connectors, apiOverrides }: Pick<LoadInput, 'connectors' | 'apiOverrides'>,
  file: string,
): WorkspaceConfig {
  if (text.length > LARGEST_FILE) throw new SyncError('config_invalid', `${file}: larger than 1 MiB`);
  const given = { variables: noVariables(), connectors, schema: workspaceFile(apiOverrides), files: diskFiles };
  const { config, problems } = readWorkspace(readDocument(file, text, given.variables), given);
  if (config === undefined) throw new SyncError('config_invalid', problemLines(problems).join('\n'));
  return config;
}

/** Returns the present text of the source of a workspace. Throws `config_unreadable`. */
export function configSourceOf(
  { file }: Pick<WorkspaceConfig, 'file'>,
  { env, files }: { readonly env: Environment; readonly files: Files },
): string {
  return file === CONFIG_TEXT ? (env[CONFIG_TEXT] ?? '') : readConfigSource(file, files);
}

/** Combines the problems of several files into one error. */
function together(broken: readonly BrokenConfig[]): SyncError {
  const errors = broken.map(({ error }) => error);
  const code = errors.every((error) => error.code === 'config_unreadable') ? 'config_unreadable' : 'config_invalid';
  return new SyncError(code, errors.map(({ message }) => message).join('\n'));
}

/** @param own problems of that file */
function brokenBy([first]: readonly ReadWorkspace[], own: readonly Problem[], variables: Variables): BrokenConfig[] {
  if (first === undefined) return [];
  const { file, name, error } = first;
  const found =
    error ??
    (own.length > 0
      ? new SyncError('config_invalid', problemLines(own).map(without(variables)).join('\n'))
      : undefined);
  return found ? [{ name: name ?? basename(file, extname(file)), file, error: found }] : [];
}

/** Removes secrets from messages, which show misspelt names: a variable may have put a secret in the wrong place. */
function without({ secrets }: Variables): (line: string) => string {
  const longestFirst = [...secrets].toSorted((a, b) => b.length - a.length);
  return (line) => longestFirst.reduce((shown, secret) => shown.replaceAll(secret, '[secret]'), line);
}

/** Returns the text of one file. Throws `config_unreadable`. */
export function readConfigSource(file: string, files: Files = diskFiles): string {
  try {
    return files.read(file, LARGEST_FILE).bytes.toString('utf8');
  } catch (error) {
    throw new SyncError('config_unreadable', (error as FileFault).about(file), { cause: error });
  }
}

/** Returns the path for people: relative to the working folder if it is below it. */
export function displayName(file: string): string {
  const short = relative('.', file);
  return short.startsWith('..') || isAbsolute(short) ? file : short;
}

interface ReadWorkspace {
  /** The path for people. */
  readonly file: string;
  readonly name?: string;
  readonly document?: ConfigDocument;
  /** Why the file could not be read at all. */
  readonly error?: SyncError;
  readonly config?: WorkspaceConfig;
  readonly problems: readonly Problem[];
  /** Uses of words from the previous version. */
  readonly notices?: readonly Problem[];
}

/** The input with which all files are read. */
interface Given {
  readonly variables: Variables;
  readonly connectors: LoadInput['connectors'];
  /** Created once for all files. */
  readonly schema: ReturnType<typeof workspaceFile>;
  readonly files: Files;
}

function readFile(path: string, given: Given): ReadWorkspace {
  const file = displayName(path);
  let source: string;
  try {
    source = readConfigSource(path, given.files);
  } catch (error) {
    return { file, problems: [], error: error as SyncError };
  }
  return { file, ...readWorkspace(readDocument(file, source, given.variables), given) };
}

/** Lines of problems count from the first of the text. */
function readVariable(text: string, given: Given): readonly ReadWorkspace[] {
  if (text.length > LARGEST_FILE) throw new SyncError('config_unreadable', `${CONFIG_TEXT}: larger than 1 MiB`);
  return readDocuments(CONFIG_TEXT, text, given.variables).map((document) => ({
    file: CONFIG_TEXT,
    ...readWorkspace(document, given),
  }));
}

function readWorkspace(document: ConfigDocument, { connectors, schema }: Given): Omit<ReadWorkspace, 'file'> {
  const { data, notices } = document;
  if (data === undefined) return { document, problems: document.problems };
  if (data === null) {
    const empty = { ...document.place([]), message: 'the configuration is empty' };
    return { document, problems: [...document.problems, empty] };
  }
  const own = nameOf(document);
  if (!document.isSound) return { document, name: own.name, problems: document.problems };
  const whole = validate(schema, { document, path: [], value: data });
  const mirror = whole.data?.mirror ?? 'auto';
  const connections: ReturnType<typeof connectionConfig>[] = [];
  const problems = [...document.problems, ...whole.problems, ...own.problems, ...unknownUsers(document, connectors)];
  problems.push(...unknownConnections(document, whole.data?.rules));
  for (const connection of connectionsIn(data)) {
    if (problems.length >= MOST_PROBLEMS) break;
    const checked = connectionConfig(document, connection, connectors, mirror);
    connections.push(checked);
    problems.push(...checked.problems);
  }
  if (problems.length > 0 || !whole.data || !own.name)
    return { document, name: own.name, problems: problems.slice(0, MOST_PROBLEMS) };
  const { $schema: _schema, workspace, ...others } = whole.data;
  const config: WorkspaceConfig = {
    ...others,
    name: own.name,
    file: document.file,
    workspace: { ...workspace, api: workspace.api ?? {} },
    connections: connections.flatMap(({ config: connection }) => connection ?? []),
  };
  return { document, name: own.name, config, problems, notices };
}

/** Returns the connections as written, valid or not, so that each can be checked despite other faults. */
function connectionsIn(data: unknown): readonly { readonly name: string; readonly value: unknown }[] {
  const connections = (data as { connections?: unknown }).connections;
  if (typeof connections !== 'object' || connections === null || Array.isArray(connections)) return [];
  return Object.entries(connections).map(([name, value]) => ({ name, value }));
}

/** `users` is by connection, by connector, or by `email`. */
function unknownUsers(document: ConfigDocument, connectors: readonly ConnectorOptions[]): readonly Problem[] {
  const { users } = document.data as { users?: unknown };
  if (typeof users !== 'object' || users === null) return [];
  const names = connectionsIn(document.data).map((connection) => connection.name);
  const known = ['email', ...connectors.map(({ id }) => id), ...names];
  const isKnown = new Set(known);
  const unknown = Object.keys(users)
    .filter((key) => !isKnown.has(key))
    .slice(0, MOST_PROBLEMS);
  return unknown.map((key) => ({
    ...document.keyPlace(['users', key]),
    message: `users: "${key}" is no connection, no connector, and not email`,
    suggestion: nearest(key, known),
  }));
}

/** A rule for connections that do not exist would silently do nothing. */
function unknownConnections(document: ConfigDocument, rules: WorkspaceConfig['rules'] | undefined): readonly Problem[] {
  const known = connectionsIn(document.data).map((connection) => connection.name);
  type Conditional = readonly { readonly when: { readonly connection?: readonly string[] | undefined } }[] | undefined;
  const inConditions = (path: readonly string[], list: Conditional = []) =>
    list.map(({ when: { connection } }, index) => ({ path: [...path, index, 'when', 'connection'], connection }));
  const named = [
    ...(rules?.links ?? []).map(({ connection }, index) => ({ path: ['links', index, 'connection'], connection })),
    ...inConditions(['triage'], rules?.triage),
    ...inConditions(['workflow', 'rules'], rules?.workflow?.rules),
  ];
  const problems = named.values().flatMap(({ path, connection = [] }) =>
    connection
      .values()
      .filter((glob) => !known.some((name) => createGlob(glob).test(name)))
      .map((glob) => ({
        ...document.place(['rules', ...path]),
        message: `${pathText(['rules', ...path])}: no connection is called "${glob}"; there are: ${known.join(', ')}`,
        suggestion: nearest(glob, known),
      })),
  );
  return problems.take(MOST_PROBLEMS).toArray();
}

/** The key `name`, else the name of the file, which must be fit for it. A variable has no name of its own. */
function nameOf(document: ConfigDocument): { readonly name?: string; readonly problems: readonly Problem[] } {
  const named = (document.data as { name?: unknown }).name;
  if (named !== undefined) return typeof named === 'string' ? { name: named, problems: [] } : { problems: [] };
  const missing = 'the key name is missing: a variable has no file name that could stand for it';
  if (document.file === CONFIG_TEXT) return { problems: [{ ...document.place([]), message: missing }] };
  const name = basename(document.file, extname(document.file));
  const reason = workspaceName.safeParse(name).error?.issues[0]?.message;
  if (reason === undefined) return { name, problems: [] };
  const message = `the file name is not a valid workspace name: ${reason}; rename the file, or set the key name`;
  return { problems: [{ ...document.place([]), message }] };
}

/** `worksync.db` in the data folder belongs to no workspace. */
export const RESERVED_NAME = 'worksync';

function reservedNames(read: readonly ReadWorkspace[]): readonly Problem[] {
  const message =
    `a workspace cannot be called "${RESERVED_NAME}", because the data folder has a database of that name: ` +
    `choose another name, and if there is a ${RESERVED_NAME}.db of this workspace, rename that file too`;
  return read.flatMap(({ name, document }) =>
    name === RESERVED_NAME && document ? [{ ...document.place(['name']), message }] : [],
  );
}

function repeatedNames(read: readonly ReadWorkspace[]): readonly Problem[] {
  const taken = new Map<string, ReadWorkspace>();
  return read.flatMap((each) => {
    const { name, document } = each;
    if (name === undefined) return [];
    const first = taken.get(name);
    if (!first) taken.set(name, each);
    if (!first || !document) return [];
    const message = `the workspace name "${name}" is already used by ${first.file}`;
    return [{ ...document.place(['name']), message }];
  });
}

/** Two configurations with rules for the statuses of the same tasks would move them against each other. */
function sharedWorkflows(read: readonly ReadWorkspace[]): readonly Problem[] {
  const withRules = read.filter(({ config }) => config?.rules.workflow !== undefined);
  return pairsOfSameWorkspace(withRules, ({ config }) => config).flatMap(([first, { config, document }]) => {
    if (!config || !document) return [];
    const message = `rules.workflow: ${first.name} (${first.file}) has such rules for the same workspace ${config.workspace.id}; keep them in one`;
    return [{ ...document.keyPlace(['rules', 'workflow']), message }];
  });
}

/** Warns of two configurations of one workspace, unless their shares of the quota are set and fit together. */
function sharedQuotaWarnings(workspaces: readonly WorkspaceConfig[]): readonly string[] {
  const shareOf = ({ quota: { share } }: WorkspaceConfig) => (share === 'auto' ? 1 : share);
  return pairsOfSameWorkspace(workspaces, (config) => config)
    .filter(([first, second]) => shareOf(first) + shareOf(second) > 1)
    .map(
      ([first, { name, file }]) =>
        `${file}: ${name} and ${first.name} use the same workspace of the server, but each counts only its own requests against the quota; put the connections of both into one file, or set quota.share`,
    );
}

/** Returns pairs of elements that configure the same workspace: the first one and each later one. */
function pairsOfSameWorkspace<Element>(
  elements: readonly Element[],
  configOf: (element: Element) => WorkspaceConfig | undefined,
): (readonly [first: Element, second: Element])[] {
  const taken = new Map<string, Element>();
  return elements.flatMap((element) => {
    const { url, id, apiKey } = configOf(element)?.workspace ?? {};
    if (url === undefined) return [];
    // The key decides which workspace is the current one.
    const same = JSON.stringify([url, id, id === 'current' && apiKey]);
    const first = taken.get(same);
    if (first !== undefined) return [[first, element] as const];
    taken.set(same, element);
    return [];
  });
}

/** Warns of secrets with which no webhook can be verified. They are no error, because polls continue without webhooks. */
function secretWarnings(
  { file, connections }: WorkspaceConfig,
  connectors: LoadInput['connectors'],
): readonly string[] {
  return connections.flatMap(({ name, connector: id, webhookSecrets }) => {
    const connector = connectors.find((each) => each.id === id);
    const [problem] = webhookSecrets.flatMap((secret) => connector?.secretProblem?.(secret) ?? []);
    return problem === undefined ? [] : [`${file}: connections.${name}.webhookSecrets: ${problem}`];
  });
}

function clearTextWarning({ file, workspace }: WorkspaceConfig): readonly string[] {
  const url = workspace.url === undefined ? undefined : new URL(workspace.url);
  if (url?.protocol !== 'http:' || /^(localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname)) return [];
  return [`${file}: workspace.url is plain http, so the API key crosses the network unencrypted`];
}
