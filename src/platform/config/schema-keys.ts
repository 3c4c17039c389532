import type { JsonSchema } from './json-schema.ts';

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

export function code(text: string): string {
  return `\`${text}\``;
}
