import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { buildSchema } from 'graphql';
import { parseSync, type TSType } from 'oxc-parser';
import { z } from 'zod';
import { graphqlBody } from './graphql.ts';
import { type Description, fields, type Operation, patternOf } from './operation.ts';

const require = createRequire(import.meta.url);

/**
 * GitHub's REST API as its OpenAPI description says it. `@octokit/openapi` holds that in 400 MB; `@octokit/openapi-types`
 * holds the same as declarations, which are read here one operation at a time.
 */
export const github: Description = {
  base: 'https://api.github.com',
  find(method, path) {
    if (method === 'POST' && path === '/graphql') return GRAPHQL;
    if (method === 'GET' && BY_ID.test(path)) return { method, path };
    const route = declared().routes.find(({ pattern }) => pattern.test(named(path)));
    const name = route?.operations.get(method);
    if (name === undefined) return undefined;
    const known = OPERATIONS.get(name) ?? operationOf(method as Operation['method'], path, name);
    OPERATIONS.set(name, known);
    return known;
  },
};

/**
 * A repository by its number is no documented route, but GitHub itself writes it into its links and redirects, and its
 * number is all that a configuration may hold. What is below it is what is below the name.
 */
const BY_ID = /^\/repositories\/\d+$/;

/** By the name that the description gives it: reading one takes some milliseconds. */
const OPERATIONS = new Map<string, Operation>();

function named(path: string): string {
  return path.replace(/^\/repositories\/\d+(?=\/)/, '/repos/owner/name');
}

interface Declared {
  readonly routes: readonly { readonly pattern: RegExp; readonly operations: ReadonlyMap<string, string> }[];
  readonly text: string;
}

let read: Declared | undefined;

function declared(): Declared {
  if (read) return read;
  const text = readFileSync(require.resolve('@octokit/openapi-types/types.d.ts'), 'utf8');
  const paths = section(text, 'export interface paths {');
  const routes = [...paths.matchAll(/^ {2}"(\/[^"]*)": \{\n([\s\S]*?)^ {2}\};/gm)].map(([, path = '', body = '']) => ({
    pattern: patternOf(path),
    parts: path.split('{').length,
    operations: new Map(
      [...body.matchAll(/^ {4}(\w+): operations\["([^"]+)"\];/gm)].map(([, method = '', name = '']) => [
        method.toUpperCase(),
        name,
      ]),
    ),
  }));
  // A route that is spelled out wins over one with a part in braces.
  read = { routes: routes.toSorted((a, b) => a.parts - b.parts), text };
  return read;
}

function section(text: string, from: string): string {
  const start = text.indexOf(from);
  const end = text.indexOf('\n}\n', start);
  if (start < 0 || end < 0) throw new Error(`the declarations hold no "${from}" any more`);
  return text.slice(start, end);
}

/** The type that is declared as `name: …;` at this depth of a section. */
function typeAt(text: string, depth: number, name: string): TSType {
  const names = [`"${name}"`, name].flatMap((each) => [`${each}:`, `${each}?:`]);
  const keys = names.map((each) => `\n${' '.repeat(depth)}${each}`);
  const key = keys.find((each) => text.includes(each));
  if (key === undefined) throw new Error(`the declarations hold no "${name}" any more`);
  const { program } = parseSync('type.ts', `type T = ${statementAt(text, text.indexOf(key) + key.length)}`);
  const [statement] = program.body;
  if (statement?.type !== 'TSTypeAliasDeclaration') throw new Error(`"${name}" is declared otherwise now`);
  return statement.typeAnnotation;
}

/** Up to the semicolon that no bracket holds; comments and texts count for nothing. */
function statementAt(text: string, from: number): string {
  const token = /\/\*[\s\S]*?\*\/|"(?:[^"\\]|\\.)*"|[{}[\]()<>;]/g;
  token.lastIndex = from;
  let depth = 0;
  for (let found = token.exec(text); found; found = token.exec(text)) {
    if ('{[(<'.includes(found[0])) depth++;
    else if ('}])>'.includes(found[0])) depth--;
    else if (found[0] === ';' && depth === 0) return text.slice(from, token.lastIndex);
  }
  throw new Error('a declaration does not end');
}

function operationOf(method: Operation['method'], path: string, name: string): Operation {
  const type = typeAt(section(declared().text, 'export interface operations {'), 2, name);
  const parameters = member(member(type, 'parameters'), 'query');
  const body = member(member(member(type, 'requestBody'), 'content'), 'application/json');
  return {
    method,
    path,
    headers: HEADERS,
    ...(parameters && { query: queryOf(parameters) }),
    ...(body && { body: isOptional(type, 'requestBody') ? schemaOf(body, 'json').optional() : schemaOf(body, 'json') }),
  };
}

/**
 * Lists go on along the links of their answers, whatever stands in those: numbers, or cursors that the description of a
 * list does not always name (docs.github.com/rest/using-the-rest-api/using-pagination-in-the-rest-api).
 */
function queryOf(parameters: TSType): z.ZodType {
  const described = schemaOf(parameters, 'text') as z.ZodObject;
  const isList = member(parameters, 'per_page') !== undefined;
  return isList ? described.extend({ after: z.string().optional(), before: z.string().optional() }) : described;
}

/** GitHub refuses what does not say who asks. */
const HEADERS = z.looseObject({ 'user-agent': z.string().min(1), accept: z.string().startsWith('application/') });

type Property = Extract<Extract<TSType, { type: 'TSTypeLiteral' }>['members'][number], { type: 'TSPropertySignature' }>;

function propertiesOf(type: TSType | undefined): readonly Property[] {
  const members = type?.type === 'TSTypeLiteral' ? type.members : [];
  return members.filter((each): each is Property => each.type === 'TSPropertySignature');
}

function nameOf({ key }: Property): string {
  if (key.type === 'Identifier') return key.name;
  return key.type === 'Literal' ? String(key.value) : '';
}

function member(type: TSType | undefined, name: string): TSType | undefined {
  return propertiesOf(type).find((each) => nameOf(each) === name)?.typeAnnotation?.typeAnnotation;
}

function isOptional(type: TSType, name: string): boolean {
  return propertiesOf(type).find((each) => nameOf(each) === name)?.optional ?? true;
}

/** Schema of a declared type, for JSON or for the texts of a query. Throws for an unknown kind of type. */
function schemaOf(type: TSType, as: 'json' | 'text'): z.ZodType {
  switch (type.type) {
    case 'TSStringKeyword':
      return z.string();
    case 'TSNumberKeyword':
    case 'TSBigIntKeyword':
      return as === 'json' ? z.number() : z.string().regex(/^\d+$/);
    case 'TSBooleanKeyword':
      return as === 'json' ? z.boolean() : z.enum(['true', 'false']);
    case 'TSNullKeyword':
      return z.null();
    case 'TSUnknownKeyword':
      return z.unknown();
    case 'TSLiteralType':
      return z.literal(String((type.literal as { value?: unknown }).value));
    case 'TSParenthesizedType':
      return schemaOf(type.typeAnnotation, as);
    case 'TSUnionType':
      return z.union(type.types.map((each) => schemaOf(each, as)));
    case 'TSIntersectionType':
      return z.intersection(schemaOf(type.types[0] as TSType, as), z.unknown());
    case 'TSArrayType':
      return z.array(schemaOf(type.elementType, as));
    case 'TSTupleType':
      return z.union(type.elementTypes.map((each) => schemaOf(each as TSType, as)));
    case 'TSTypeLiteral':
      return objectOf(type, as);
    case 'TSTypeReference':
      // `OneOf<[A, B]>`: one of the types of its list.
      return schemaOf(type.typeArguments?.params[0] as TSType, as);
    case 'TSIndexedAccessType':
      return schemaOf(referredTo(type), as);
    default:
      throw new Error(`the declarations hold a type that is not known here: ${type.type}`);
  }
}

function objectOf(type: Extract<TSType, { type: 'TSTypeLiteral' }>, as: 'json' | 'text'): z.ZodType {
  const shape = propertiesOf(type).map((each) => {
    const schema = each.typeAnnotation ? schemaOf(each.typeAnnotation.typeAnnotation, as) : z.unknown();
    return [nameOf(each), each.optional ? schema.optional() : schema] as const;
  });
  const isOpen = type.members.some((each) => each.type === 'TSIndexSignature');
  return isOpen ? z.looseObject(Object.fromEntries(shape)) : fields(Object.fromEntries(shape));
}

/** `components["parameters"]["direction"]` */
function referredTo(type: Extract<TSType, { type: 'TSIndexedAccessType' }>): TSType {
  const name = literal(type.indexType);
  const kind = type.objectType.type === 'TSIndexedAccessType' ? literal(type.objectType.indexType) : '';
  const components = section(declared().text, 'export interface components {');
  const start = components.indexOf(`\n  ${kind}: {`);
  if (kind === '' || start < 0) throw new Error(`the declarations hold no ${kind} ${name} any more`);
  return typeAt(components.slice(start), 4, name);
}

function literal(type: TSType): string {
  return type.type === 'TSLiteralType' ? String((type.literal as { value?: unknown }).value) : '';
}

/** Part of GitHub's GraphQL reference about the two mutations that REST lacks (docs.github.com/graphql/reference/mutations). */
const schema = buildSchema(`
  type Query { viewer: User }
  type User { login: String! }
  type PullRequest { id: ID! isDraft: Boolean! }
  input ConvertPullRequestToDraftInput { clientMutationId: String pullRequestId: ID! }
  input MarkPullRequestReadyForReviewInput { clientMutationId: String pullRequestId: ID! }
  type ConvertPullRequestToDraftPayload { clientMutationId: String pullRequest: PullRequest }
  type MarkPullRequestReadyForReviewPayload { clientMutationId: String pullRequest: PullRequest }
  type Mutation { convertPullRequestToDraft(input: ConvertPullRequestToDraftInput!): ConvertPullRequestToDraftPayload
    markPullRequestReadyForReview(input: MarkPullRequestReadyForReviewInput!): MarkPullRequestReadyForReviewPayload
  }
`);

const GRAPHQL: Operation = { method: 'POST', path: '/graphql', headers: HEADERS, body: graphqlBody(schema) };
