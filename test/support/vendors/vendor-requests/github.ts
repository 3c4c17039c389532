import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { buildSchema } from 'graphql';
import { z } from 'zod';
import { graphqlBody } from './graphql.ts';
import { type Description, fields, type Operation, patternOf } from './operation.ts';

const require = createRequire(import.meta.url);

/**
 * GitHub's REST API as its OpenAPI description says it. `@octokit/openapi` holds that in 400 MB; `@octokit/openapi-types`
 * holds the same as declarations, of which the names of parameters and of fields are read here.
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

function operationOf(method: Operation['method'], path: string, name: string): Operation {
  const declaration = partOf(section(declared().text, 'export interface operations {'), 2, name) ?? '';
  const query = namesIn(partOf(declaration, 6, 'query'), 8);
  const body = namesIn(partOf(declaration, 8, 'application/json'), 10);
  // Lists go on along the links of their answers, whose cursors the description of a list does not always name.
  const cursors = query.includes('per_page') ? ['after', 'before'] : [];
  return {
    ...{ method, path, headers: HEADERS },
    ...(query.length > 0 && { query: anyOf([...query, ...cursors]) }),
    ...(body.length > 0 && { body: anyOf(body).optional() }),
  };
}

/** The object that is declared as `name: {` at this depth: the lines up to its end. */
function partOf(text: string, depth: number, name: string): string | undefined {
  const space = ' '.repeat(depth);
  return new RegExp(`^${space}"?${name}"?\\??: \\{\\n([\\s\\S]*?)^${space}\\}`, 'm').exec(text)?.[1];
}

function namesIn(text = '', depth: number): readonly string[] {
  return Array.from(text.matchAll(new RegExp(`^ {${depth}}"?([\\w-]+)"?\\??:`, 'gm')), ([, name = '']) => name);
}

/** Checks names only: values are of any type. */
function anyOf(names: readonly string[]) {
  return fields(Object.fromEntries(names.map((name) => [name, z.unknown().optional()])));
}

/** GitHub refuses what does not say who asks. */
const HEADERS = z.looseObject({ 'user-agent': z.string().min(1), accept: z.string().startsWith('application/') });

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
