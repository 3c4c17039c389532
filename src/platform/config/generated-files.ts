import { type ZodType, z } from 'zod';
import { CODES, type Verdict } from '../../model/errors.ts';
import { FOREIGN_EDITS } from '../../model/foreign-edits.ts';
import { DAEMON_OPTIONS } from './daemon-options.ts';
import { type ConnectorOptions, connectionKeys, workspaceFile } from './schema.ts';

/**
 * The files under `config/` that must always agree with the code. The same input yields the same bytes. `path` is relative to the top
 * of the project.
 */
export function generatedFiles(connectors: readonly ConnectorOptions[], apiOverrides: ZodType) {
  const schema = generateSchema(connectors, apiOverrides);
  return [
    { path: 'config/schema.json', content: `${JSON.stringify(schema, null, 2)}\n` },
    { path: 'config/reference.md', content: generateReference(connectors, apiOverrides) },
  ];
}

/** JSON Schema 2020-12 of a workspace file as it is written, so a variable may stand for any single value. */
export function generateSchema(connectors: readonly ConnectorOptions[], apiOverrides: ZodType): JsonSchema {
  const file = withVariables(fileSchema(apiOverrides));
  const parts = sorted(connectors).map((connector) => ({
    name: `connection-${connector.id}`,
    schema: withVariables(connectionSchema(connector)),
  }));
  const connections = {
    ...(file.properties?.['connections'] as JsonSchema),
    additionalProperties: { oneOf: parts.map(({ name }) => ({ $ref: `#/$defs/${name}` })) },
  };
  return {
    ...file,
    title: 'A workspace of worksync',
    properties: { ...file.properties, connections },
    $defs: {
      variable: { type: 'string', pattern: '\\$\\{', description: `\${NAME}: a variable of the environment.` },
      ...Object.fromEntries(parts.map(({ name, schema }) => [name, schema])),
    },
  };
}

/** The page that lists every key, option and error code. */
export function generateReference(connectors: readonly ConnectorOptions[], apiOverrides: ZodType): string {
  const { connector: _id, ...common } = schemaOf(connectionKeys).properties ?? {};
  const sections = [
    INTRODUCTION,
    '## Options of the daemon',
    OPTIONS_NOTE,
    optionTable(),
    '## Workspace file',
    FILE_NOTE,
    keyTable(fileSchema(apiOverrides)),
    '## Every connection',
    '`connector` names the vendor; the keys below it are the same for all vendors.',
    keyTable({ type: 'object', properties: common }),
    ...sorted(connectors).flatMap(({ id, title, options }) => [
      `## Connector \`${id}\`: ${title}`,
      keyTable(schemaOf(options)),
    ]),
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

function sorted(connectors: readonly ConnectorOptions[]): readonly ConnectorOptions[] {
  return connectors.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

export function schemaOf(schema: ZodType): JsonSchema {
  return z.toJSONSchema(schema, { target: 'draft-2020-12', io: 'input', unrepresentable: 'any' }) as JsonSchema;
}

function fileSchema(apiOverrides: ZodType): JsonSchema {
  return schemaOf(workspaceFile(apiOverrides));
}

/** A connection of one connector: the common keys and the connector's own in one strict object. */
function connectionSchema({ id, title, options }: ConnectorOptions): JsonSchema {
  const common = schemaOf(connectionKeys);
  const own = schemaOf(options);
  if (own.type !== 'object' || own.additionalProperties !== false)
    throw new TypeError(`the options of connector ${id} must be a strict object`);
  return {
    type: 'object',
    title,
    properties: { ...common.properties, connector: { const: id, description: `${title}.` }, ...own.properties },
    required: ['connector', ...(own.required ?? [])],
    additionalProperties: false,
  };
}

const VARIABLE: JsonSchema = { $ref: '#/$defs/variable' };
/** Keywords for people; they stay beside the alternatives. */
const ANNOTATIONS = ['title', 'description', 'default'];

/** Allows a variable for every single value of a limited form. */
function withVariables(schema: JsonSchema): JsonSchema {
  if (isLimitedValue(schema)) return orVariable(schema);
  const result = { ...schema };
  if (schema.properties) result.properties = mapValues(schema.properties as Record<string, JsonSchema>, withVariables);
  if (isSchema(schema.items)) result.items = withVariables(schema.items);
  if (isSchema(schema.additionalProperties)) result.additionalProperties = withVariables(schema.additionalProperties);
  if (schema.oneOf) result.oneOf = (schema.oneOf as JsonSchema[]).map(withVariables);
  if (schema.anyOf) {
    const branches = schema.anyOf as JsonSchema[];
    result.anyOf = [...branches.map((branch) => (isLimitedValue(branch) ? branch : withVariables(branch))), VARIABLE];
  }
  return result;
}

function mapValues<From, To>(from: Readonly<Record<string, From>>, change: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(from).map(([key, value]) => [key, change(value)]));
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isLimitedValue({ type, enum: values, ...rest }: JsonSchema): boolean {
  if (type === 'number' || type === 'integer' || type === 'boolean' || values !== undefined) return true;
  return type === 'string' && Object.keys(rest).some((key) => !ANNOTATIONS.includes(key));
}

function orVariable(schema: JsonSchema): JsonSchema {
  const entries = Object.entries(schema);
  const said = entries.filter(([key]) => ANNOTATIONS.includes(key));
  const limits = entries.filter(([key]) => !ANNOTATIONS.includes(key));
  return { ...Object.fromEntries(said), anyOf: [Object.fromEntries(limits), VARIABLE] };
}

export type JsonSchema = z.core.JSONSchema.JSONSchema;

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
