import type { z } from 'zod';
import { CODES, type Verdict } from '../../model/errors/codes.ts';
import { FOREIGN_EDITS } from '../../model/foreign-edits.ts';
import { DAEMON_OPTIONS } from './daemon-options.ts';

export type JsonSchema = z.core.JSONSchema.JSONSchema;

interface ReferenceInput {
  readonly file: JsonSchema;
  /** The keys that all connections have. */
  readonly common: JsonSchema;
  readonly connectors: readonly { readonly id: string; readonly title: string; readonly options: JsonSchema }[];
}

/** The reference page, Markdown. */
export function workspaceReference({ file, common, connectors }: ReferenceInput): string {
  const sections = [
    INTRODUCTION,
    '## Options of the daemon',
    OPTIONS_NOTE,
    optionTable(),
    '## Workspace file',
    FILE_NOTE,
    keyTable(file),
    '## Every connection',
    '`connector` names the vendor; the keys below it are the same for all vendors.',
    keyTable(common),
    ...connectors.flatMap(({ id, title, options }) => [`## Connector \`${id}\`: ${title}`, keyTable(options)]),
    '## Variables',
    VARIABLES,
    '## Changes by others',
    FOREIGN_NOTE,
    foreignTable(),
    '## Error codes',
    CODES_NOTE,
    codeTable(),
  ];
  return `${sections.join('\n\n')}\n`;
}

const INTRODUCTION = `# Reference

Generated from the schemas by \`npm run generate\`; do not edit. Durations are a number and a unit: \`ms\`, \`s\`, \`m\`, \`h\`, \`d\`.`;

const OPTIONS_NOTE = `A flag overrides the environment, and the environment overrides the default. \`WORKSYNC_CONFIG_YAML\` holds the configuration itself, as one
YAML document for each workspace; it overrides \`WORKSYNC_CONFIG\`, and \`--config\` overrides it.`;

const FILE_NOTE = `One YAML file per workspace. An unknown key is an error. All files are checked before anything starts, and every
problem is reported with its file, line and column. Words that the previous version had are read, with a warning.`;

const VARIABLES = [
  'Every text that is a value of a workspace file may hold variables. worksync substitutes them after it has parsed the file, so a value never becomes structure.',
  table(
    ['written', 'becomes'],
    [
      [code(`\${NAME}`), 'the variable; an error where it is not set or empty'],
      [code(`\${NAME:-default}`), 'the variable, else the default'],
      [code(`\${NAME:?message}`), 'the variable, else an error with the message'],
      [code('$$'), 'a dollar sign'],
    ],
  ),
  'Each variable may be given as `NAME`, or as `NAME_FILE` with the path of a file; a byte order mark and blanks and line breaks at both ends of the file are dropped, a file in UTF-16 or in quotes is refused, and one that everybody may read is a warning. Setting both is an error. A value with line breaks must come from a file. Inside `[ ]` and `{ }` a variable needs quotes.',
  '`.env` in the folder that contains the configuration folder sets variables too, such as `./.env` for `config/workspaces/` and `config/team.yaml`; the environment takes precedence.',
  'These tokens give access to pages, metrics and admin actions over HTTP: `WORKSYNC_ADMIN_TOKEN` may do everything, `WORKSYNC_READ_TOKEN` may only read, and `WORKSYNC_TOKENS` is a list of tokens, one per line (or with `;` between them): the role (`read` or `admin`), the workspaces it is limited to, and the token, as `read:acme,beta 6f1c…`. A token has at least 16 characters; make one with `openssl rand -hex 32`.',
  'The program itself reads `WORKSYNC_SECRET_KEY` the same way: 32 bytes in base64 or hex. worksync encrypts with it what it must store: refresh tokens of `oauth`, and in a workspace service the provider tokens and the secrets of webhooks. If the variable is not set, worksync makes a key when it first needs one, beside the database (`<database>.key`, mode 0600): back up both.',
].join('\n\n');

const FOREIGN_NOTE = `If somebody changes something and no webhook tells the daemon, a sweep finds it. The sweep of the workspace compares its lists (\`lists\`), and reads one
after the other the links and documents that no list contains (\`turn\`). The sweep of the connection reads what exists at the vendor. With webhooks
of both sides the daemon finds a change within seconds.`;

const SEEN = { lists: 'lists', turn: 'turn', connection: 'sweep of the connection' } as const;

function foreignTable(): string {
  return table(
    ['where', 'thing', 'change', 'result', 'found by', 'reported as'],
    Object.values(FOREIGN_EDITS).map((line) => [
      line.side,
      line.thing,
      line.edit,
      line.result,
      SEEN[line.foundBy],
      'finding' in line ? code(line.finding) : '',
    ]),
  );
}

const CODES_NOTE = `A code never changes its meaning. \`retry\`: may succeed when repeated later. \`wait-until\`: succeeds only after
something named has happened. \`never\`: repeating it is useless. The exit code is that of the command line when the error ends it.`;

function optionTable(): string {
  return table(
    ['flag', 'variable', 'type', 'default', 'meaning'],
    DAEMON_OPTIONS.map((option) => [
      code(option.flag),
      code(option.env),
      option.type,
      option.default === undefined ? '' : code(option.default),
      option.description,
    ]),
  );
}

function codeTable(): string {
  const entries: readonly [string, { verdict: Verdict; hint: string; exit?: number }][] = Object.entries(CODES);
  return table(
    ['code', 'verdict', 'exit', 'remedy'],
    entries.map(([name, { verdict, hint, exit = 1 }]) => [code(name), code(verdict), String(exit), hint]),
  );
}

function keyTable(schema: JsonSchema): string {
  return table(
    ['key', 'type', 'default', 'meaning'],
    keysOf(schema).map((key) => [
      code(key.key),
      key.type,
      key.required ? 'required' : defaultText(key.default),
      key.description,
    ]),
  );
}

function defaultText(standard: unknown): string {
  const isEmpty = standard === undefined || (typeof standard === 'object' && Object.keys(standard ?? {}).length === 0);
  if (isEmpty) return '';
  return code(typeof standard === 'string' ? standard : JSON.stringify(standard));
}

/** Columns are padded as the project's formatter does it, so that it leaves the page alone. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map(escapeCell));
  const widths = head.map((_, column) => Math.max(3, ...cells.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) => `| ${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`;
  const rule = widths.map((width) => '-'.repeat(width));
  const [first = [], ...others] = cells;
  return [first, rule, ...others].map(line).join('\n');
}

function escapeCell(text: string): string {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.join(' ').replaceAll('|', '\\|');
}

/** One key of a configuration, for people. */
interface Key {
  /** With those that hold it: `app.privateKey`, `rules[].when`. */
  readonly key: string;
  /** In words; what is written as it is stands between backticks. */
  readonly type: string;
  readonly required: boolean;
  readonly default?: unknown;
  readonly description: string;
}

/** Every key of a schema, those inside after the key that holds them. */
export function keysOf(schema: JsonSchema, prefix = ''): readonly Key[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, value]) => {
    const node = value as JsonSchema;
    const key: Key = {
      key: prefix + name,
      type: typeText(node),
      required: schema.required?.includes(name) ?? false,
      ...(node.default !== undefined && { default: node.default }),
      description: descriptionOf(node),
    };
    return [key, ...keysOf(node, `${prefix}${name}.`), ...innerKeys(node, prefix + name)];
  });
}

/** Keys of what a list or a mapping with free names holds. */
function innerKeys({ items, additionalProperties }: JsonSchema, key: string): readonly Key[] {
  return [
    ...(typeof items === 'object' ? keysOf(items as JsonSchema, `${key}[].`) : []),
    ...(typeof additionalProperties === 'object' ? keysOf(additionalProperties, `${key}.<name>.`) : []),
  ];
}

const WORDS: Readonly<Record<string, string>> = {
  string: 'text',
  boolean: '`true` or `false`',
  integer: 'whole number',
  object: 'mapping',
};

/** Returns the description, with the values of enumerations that neither it nor the type names. */
function descriptionOf(schema: JsonSchema): string {
  const { description = '' } = schema;
  const missing = valuesOf(schema).filter((value) => !`${typeText(schema)} ${description}`.includes(code(value)));
  return missing.length === 0 ? description : `${description} Values: ${missing.map(code).join(', ')}.`.trimStart();
}

/** Returns the values of the enumerations in a schema, without those that keys of their own describe. */
function valuesOf({ enum: values = [], const: value, ...schema }: JsonSchema): readonly string[] {
  const parts = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), schema.items, schema.additionalProperties];
  const inner = parts.flatMap((part) => (isSchema(part) && part.properties === undefined ? valuesOf(part) : []));
  return [...new Set([...values, ...(value === undefined ? [] : [value]), ...inner].map(String))];
}

function isSchema(part: unknown): part is JsonSchema {
  return typeof part === 'object' && part !== null && !Array.isArray(part);
}

function typeText(schema: JsonSchema): string {
  if (schema.title !== undefined) return schema.title;
  const alternatives = (schema.anyOf ?? schema.oneOf) as readonly JsonSchema[] | undefined;
  if (alternatives) return [...new Set(alternatives.map(typeText))].join(' or ');
  if (schema.enum) return schema.enum.map((value) => code(String(value))).join(' or ');
  if (schema.const !== undefined) return code(String(schema.const));
  if (schema.type === 'array') return `list of ${typeText((schema.items ?? {}) as JsonSchema)}`;
  const type = String(schema.type ?? 'any');
  return `${WORDS[type] ?? type}${rangeText(schema)}`;
}

function rangeText({ minimum: lowest, maximum, exclusiveMinimum }: JsonSchema): string {
  const minimum = lowest === Number.MIN_SAFE_INTEGER ? undefined : lowest;
  const to = maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum;
  if (exclusiveMinimum !== undefined) return `, over ${exclusiveMinimum}${to === undefined ? '' : `, at most ${to}`}`;
  if (minimum === undefined) return to === undefined ? '' : `, at most ${to}`;
  return to === undefined ? `, from ${minimum}` : `, ${minimum} to ${to}`;
}

function code(text: string): string {
  return `\`${text}\``;
}
