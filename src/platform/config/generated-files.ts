import { type ZodType, z } from 'zod';
import { type JsonSchema, workspaceReference } from './reference.ts';
import { type ConnectorOptions, connectionKeys, workspaceFile } from './schema.ts';

/** A file that is generated from the schemas; `path` is relative to the top of the project. */
export interface GeneratedFile {
  readonly path: string;
  readonly content: string;
}

/** The files under `config/` that must always agree with the code. The same input yields the same bytes. */
export function generatedFiles(
  connectors: readonly ConnectorOptions[],
  apiOverrides: ZodType,
): readonly GeneratedFile[] {
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
  return workspaceReference({
    file: fileSchema(apiOverrides),
    common: { type: 'object', properties: common },
    connectors: sorted(connectors).map(({ id, title, options }) => ({ id, title, options: schemaOf(options) })),
  });
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
