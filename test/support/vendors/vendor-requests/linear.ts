import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { buildSchema, type GraphQLSchema } from 'graphql';
import { z } from 'zod';
import { graphqlBody } from './graphql.ts';
import type { Description, Operation } from './operation.ts';
import { refresh } from './trackers.ts';

let operation: Operation | undefined;

/** Linear's GraphQL API as its SDK declares it. */
export const linear: Description = {
  base: 'https://api.linear.app',
  find(method, path) {
    if (method !== 'POST') return undefined;
    if (path === '/oauth/token') return TOKEN;
    return path === '/graphql' ? asked() : undefined;
  },
};

/** linear.app/developers/oauth-2-0-authentication, "Refresh an access token" */
const TOKEN: Operation = {
  ...{ method: 'POST', path: '/oauth/token', body: refresh },
  headers: z.looseObject({ 'content-type': z.literal('application/x-www-form-urlencoded') }),
};

/** The schema is written down once, when it is first needed. */
function asked(): Operation {
  operation ??= { method: 'POST', path: '/graphql', body: graphqlBody(linearSchema()) };
  return operation;
}

const require = createRequire(import.meta.url);

/**
 * The schema of Linear's API, as its SDK declares it. The package holds no schema language, but its declarations are
 * generated from the schema one by one: objects (with `__typename`), inputs, enums, scalars, and for each field with
 * arguments a type of its own, `<Object><Field>Args`. From them the schema is written down again, as far as it can be
 * reached from a query or a mutation. Fields whose type is declared otherwise (unions, interfaces) are left out: a query
 * that used one would fail, not pass.
 */
function linearSchema(): GraphQLSchema {
  const folder = join(dirname(require.resolve('@linear/sdk/package.json')), 'dist');
  const file = readdirSync(folder).find((name) => /^index-.+\.d\.mts$/.test(name));
  if (file === undefined) throw new Error('the SDK holds no declarations any more');
  return buildSchema(schemaLanguage(readFileSync(join(folder, file), 'utf8')));
}

type Fields = ReadonlyMap<string, string>;

const ROOTS = ['Query', 'Mutation'];
const BUILT_IN = ['ID', 'String', 'Boolean', 'Int', 'Float'];

function schemaLanguage(declarations: string): string {
  const enums = declared(declarations, /^declare enum (\w+) \{\n([\s\S]*?)^\}/gm);
  const records = declared(declarations, /^type (\w+) = (?:\w+ & )*\{\n([\s\S]*?)^\};/gm);
  const fields = new Map([...records].map(([name, body]) => [name, fieldsOf(body)]));
  const scalars = [...(fields.get('Scalars')?.keys() ?? [])].filter((name) => !BUILT_IN.includes(name));
  const leaves = new Set([...BUILT_IN, ...scalars, ...enums.keys()]);
  const isObject = (name: string) => fields.get(name)?.has('__typename') ?? false;

  const written = new Map<string, string>();
  const open = [...ROOTS];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (written.has(name)) continue;
    const within = isObject(name);
    const mayHold = (type: string) =>
      leaves.has(named(type)) || (fields.has(named(type)) && isObject(named(type)) === within);
    const lines: string[] = [];
    for (const [field, type] of fields.get(name) ?? []) {
      if (field === '__typename' || !mayHold(type)) continue;
      const given = within ? fields.get(`${name}${field.charAt(0).toUpperCase()}${field.slice(1)}Args`) : undefined;
      lines.push(`  ${field}${given ? argumentsOf(given) : ''}: ${type}`);
      open.push(...[type, ...(given?.values() ?? [])].map(named).filter((each) => !leaves.has(each)));
    }
    written.set(name, `${within ? 'type' : 'input'} ${name} {\n${lines.join('\n')}\n}`);
  }
  const valuesOf = (body: string) => [...body.matchAll(/= "(\w+)"/g)].map(([, value]) => value).join(' ');
  return [
    ...scalars.map((name) => `scalar ${name}`),
    ...[...enums].map(([name, body]) => `enum ${name} { ${valuesOf(body)} }`),
    ...written.values(),
  ].join('\n');
}

/** By name, the first declaration of each: later ones are of single operations. */
function declared(text: string, pattern: RegExp): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, name = '', body = ''] of text.matchAll(pattern)) if (!found.has(name)) found.set(name, body);
  return found;
}

function fieldsOf(body: string): Fields {
  return new Map([...body.matchAll(/^ {2}(\w+)\??: (.+);$/gm)].map(([, name = '', type = '']) => [name, typeOf(type)]));
}

/** `Maybe<Array<Scalars["String"]>>` → `[String!]` */
function typeOf(declaration: string): string {
  const [, wrapped] = /^(?:Input)?Maybe<(.+)>$/.exec(declaration) ?? [];
  if (wrapped !== undefined) return typeOf(wrapped).replace(/!$/, '');
  const [, element] = /^Array<(.+)>$/.exec(declaration) ?? [];
  if (element !== undefined) return `[${typeOf(element)}]!`;
  return `${/^Scalars\["(\w+)"\]$/.exec(declaration)?.[1] ?? declaration}!`;
}

function named(type: string): string {
  return type.replace(/[[\]!]/g, '');
}

function argumentsOf(given: Fields): string {
  return `(${[...given].map(([name, type]) => `${name}: ${type}`).join(', ')})`;
}
