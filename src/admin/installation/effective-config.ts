import { createHash } from 'node:crypto';
import { type CommandEnvironment, environmentOf } from '../../platform/config/config-files.ts';
import { CONFIG_TEXT, configText, DAEMON_OPTIONS, type Flags } from '../../platform/config/daemon-options.ts';
import { createVariables, type Variables } from '../../platform/config/interpolate.ts';
import { configSourceOf } from '../../platform/config/load.ts';
import type { ConnectionConfig, WorkspaceConfig } from '../../platform/config/schema.ts';
import {
  type ConfigDocument,
  type Path,
  pathText,
  readDocuments,
  textWithoutSecrets,
} from '../../platform/config/yaml-document.ts';
import { durationText } from '../../platform/lib/quantities.ts';
import { type Files, fileReads } from '../../platform/lib/regular-files.ts';
import type { OpenWorkspace } from '../open-workspace.ts';

export interface EffectiveValue {
  /** `daemon`, or the workspace. */
  readonly of: string;
  /** `connections.github.poll`, `rule 2 of rules.triage: create` */
  readonly key: string;
  /** A secret is masked: its length, and the first characters of its SHA-256, which distinguish two of them. */
  readonly value: unknown;
  /** `flag --data`, `env WORKSYNC_DATA`, `.env WORKSYNC_DATA`, `team.yaml:7`, `team.yaml:7, env GITHUB_TOKEN`, or `default`; of a text in a variable `WORKSYNC_CONFIG_YAML:7`. */
  readonly origin: string;
}

export interface ConfigInUse {
  readonly workspaces: readonly WorkspaceConfig[];
  readonly flags: Flags;
  readonly env: CommandEnvironment;
  /** Where the files of the workspaces are read. */
  readonly files: Files;
  /** Knows every secret, in each form that it may take. */
  readonly scrub: (text: string) => string;
}

/** The configuration as it is in use, each value with where it comes from. */
export function effectiveConfig(inUse: ConfigInUse): readonly EffectiveValue[] {
  const { workspaces, flags, env, files, scrub } = inUse;
  const values = [
    ...daemonValues(flags, env),
    ...workspaces.flatMap((workspace) => workspaceValues(workspace, env, files)),
  ];
  return values.map((each) => ({ ...each, value: masked(each.value, scrub) }));
}

export function daemonConfiguration({
  flags,
  env,
  scrub,
}: Omit<ConfigInUse, 'workspaces' | 'files'>): readonly EffectiveValue[] {
  return daemonValues(flags, env).map((each) => ({ ...each, value: masked(each.value, scrub) }));
}

function daemonValues(flags: Flags, env: CommandEnvironment): EffectiveValue[] {
  const { settings } = env;
  return DAEMON_OPTIONS.map(({ key, flag, env: variable, default: standard }) => {
    const given = flags[key];
    const named = { of: 'daemon', key };
    if (key === 'config' && configText(flags, settings)) return { ...named, value: null, origin: `env ${CONFIG_TEXT}` };
    if (given !== undefined) return { ...named, value: given, origin: `flag ${flag.split(' ')[0]}` };
    if (settings[variable]) return { ...named, value: settings[variable], origin: originOf(variable, env) };
    return { ...named, value: standard ?? null, origin: 'default' };
  });
}

/** `env NAME`, or `.env NAME` where the file sets it. */
function originOf(variable: string, { file }: CommandEnvironment): string {
  const isInFile = file?.used.some((name) => name === variable || name === `${variable}_FILE`) ?? false;
  return `${isInFile ? '.env' : 'env'} ${variable}`;
}

interface Leaf {
  readonly path: Path;
  readonly value: unknown;
}

function workspaceValues(workspace: WorkspaceConfig, env: CommandEnvironment, files: Files): EffectiveValue[] {
  const { variables: values } = env;
  const { name, file } = workspace;
  const source = configSourceOf(workspace, { env: values, files });
  const documents = readDocuments(file, source, createVariables(values, undefined, files));
  // A file may leave out its name: then it holds nothing else.
  const index = Math.max(
    0,
    documents.findIndex(({ data }) => (data as { name?: unknown }).name === name),
  );
  const written = documents[index] as ConfigDocument;
  const variablesAt = variablesIn(readDocuments(file, source, NAMED)[index] as ConfigDocument);
  const own = leavesOf(written.data);
  const inFile = own.map(({ path, value }) => {
    const variables = variablesAt.get(path.join('.')) ?? [];
    const origin = [`${file}:${written.place(path).line}`, ...variables.map((each) => originOf(each, env))].join(', ');
    return { of: name, key: pathText(path), value, origin };
  });
  const defaults = leavesOf(asWritten(workspace)).filter(({ path }) => !own.some((each) => isWithin(each.path, path)));
  return [...inFile, ...defaults.map((leaf) => ({ of: name, ...asTyped(leaf), origin: 'default' }))];
}

/** Every variable stands for its own name. */
const NAMED: Variables = {
  get: (name) => ({ value: `\${${name}}` }),
  ...{ secrets: new Set(), files: new Set(), warnings: new Set() },
};

/** The names of the variables that each value of the document holds, by its path. */
function variablesIn({ data }: ConfigDocument): ReadonlyMap<string, readonly string[]> {
  return new Map(
    leavesOf(data).map(({ path, value }) => {
      const names = [...JSON.stringify(value).matchAll(/\$\{(\w+)\}/g)].map((match) => match[1] as string);
      return [path.join('.'), [...new Set(names)]];
    }),
  );
}

/** In the shape of a workspace file, so that paths mean the same. */
function asWritten({ name: _name, file: _file, connections, ...config }: WorkspaceConfig): object {
  const written = ({ name, options, ...connection }: ConnectionConfig) => [
    name,
    { ...connection, ...(options as object) },
  ];
  return { ...config, connections: Object.fromEntries(connections.map(written)) };
}

/** Keys whose values are durations, kept as milliseconds. */
export const DURATIONS: readonly string[] = [
  'quota.window',
  'quota.burstWindow',
  'retention.bodies',
  'retention.deliveries',
  'gateway.fresh',
  'gateway.wait',
];

/** A default as one would write it into the file: a duration with its unit, `everyMs` as the value of its key. */
function asTyped({ path, value }: Leaf): { readonly key: string; readonly value: unknown } {
  const key = pathText(path);
  if (typeof value !== 'number') return { key, value };
  if (path.at(-1) === 'everyMs') return { key: pathText(path.slice(0, -1)), value: durationText(value) };
  return { key, value: DURATIONS.includes(key) ? durationText(value) : value };
}

/** Scalars, and lists of scalars. What is neither (a compiled pattern) comes from a value of the file, which is listed. */
function leavesOf(data: unknown, path: Path = []): Leaf[] {
  if (isScalar(data) || (Array.isArray(data) && data.every(isScalar)))
    return path.length === 0 ? [] : [{ path, value: data }];
  if (typeof data !== 'object' || data === null) return [];
  if (Array.isArray(data)) return data.flatMap((value, index) => leavesOf(value, [...path, index]));
  const isPlain = Object.getPrototypeOf(data) === Object.prototype;
  return isPlain ? Object.entries(data).flatMap(([key, value]) => leavesOf(value, [...path, key])) : [];
}

function isScalar(value: unknown): boolean {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value);
}

/** Whether one path is the other's beginning: a value written as `5m` is kept as several. */
function isWithin(a: Path, b: Path): boolean {
  const shared = Math.min(a.length, b.length);
  return a.slice(0, shared).join('.') === b.slice(0, shared).join('.');
}

/** A secret as it is shown: its length and the begin of its hash. */
function maskOf(secret: string): string {
  return `****(${secret.length}, ${createHash('sha256').update(secret).digest('hex').slice(0, 8)})`;
}

function masked(value: unknown, scrub: (text: string) => string): unknown {
  if (Array.isArray(value)) return value.map((each) => masked(each, scrub));
  if (typeof value !== 'string' || scrub(value) === value) return value;
  return maskOf(value);
}

/**
 * The values of one workspace, each with where it comes from; secrets are masked. Throws where its file cannot be read now.
 *
 * The file may have a secret since a moment ago that nothing in the process has read yet. So what is called like one is
 * masked too, whatever it is.
 */
export async function workspaceConfiguration(
  { config, name }: OpenWorkspace,
  scrub: (text: string) => string,
): Promise<readonly EffectiveValue[]> {
  const values = await fileReads.run((files) =>
    effectiveConfig({ workspaces: [config], flags: {}, env: environmentOf(config.file, files), files, scrub }),
  );
  return values
    .filter(({ of }) => of === name)
    .map((each) => (SECRET.test(each.key) ? { ...each, value: hidden(each.value) } : each));
}

/** Returns the configuration of one workspace as it is written, without its secrets. Throws if its file cannot be read now. */
export async function writtenConfiguration(
  { config, name }: OpenWorkspace,
  scrub: (text: string) => string,
): Promise<string> {
  const source = await fileReads.run((files) =>
    configSourceOf(config, { env: environmentOf(config.file, files).variables, files }),
  );
  return scrub(textWithoutSecrets(source, name));
}

const SECRET = /(?:secret|token|key|password|credential)s?(?:#\d+)?$/i;
const MASKED = /^\*{4}\(/;

function hidden(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(hidden);
  return typeof value === 'string' && !MASKED.test(value) ? maskOf(value) : value;
}
