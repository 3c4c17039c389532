import { type ZodType, z } from 'zod';
import { errorObject, ID_PATTERN, parametersOf, type Route, successesOf } from './route.ts';

/** JSON Schema 2020-12, and every other plain object of the document. */
type Json = Readonly<Record<string, unknown>>;

export interface ApiDescription {
  /** Routes by name, under the heading that they are shown below. */
  readonly groups: Readonly<Record<string, Readonly<Record<string, Route>>>>;
  /** The end of every base address. */
  readonly basePath: string;
  readonly versionHeader: string;
  /** Names of routes that the server does not have. */
  readonly missing?: ReadonlySet<string>;
  readonly version: string;
}

/** The OpenAPI 3.1 document of the routes, as a plain JSON value. The same routes yield the same document. */
export function describeApi(description: ApiDescription): Json {
  const schemas = new Map([['Error', jsonSchema(errorObject, 'output')]]);
  const operations = operationsOf(description, (schema, io) => schemaOf(schema, io, schemas));
  const paths: Record<string, Record<string, Json>> = {};
  for (const { path, method, operation } of operations) {
    paths[path] = { ...(paths[path] ?? { parameters: pathParameters(path) }), [method]: operation } as never;
  }
  return {
    openapi: '3.1.1',
    info: { title: 'Workspace API', version: description.version, description: INTRODUCTION },
    servers: [{ url: description.basePath }],
    tags: Object.keys(description.groups).map((name) => ({ name })),
    paths,
    components: {
      schemas: Object.fromEntries(sorted(schemas)),
      parameters: { ApiVersion: versionParameter(description) },
      responses: RESPONSES,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

const INTRODUCTION = `Tasks, links, documents, pull requests and files of a workspace.

Every request carries \`Authorization: Bearer …\` with an API key or an OAuth access token. \`current\` as workspace stands
for the credential's own. Clients branch on \`errorCode\`, never on \`message\`. Enumerations of answers may grow: known
values stand under \`x-extensible-enum\`. "W" names a rule of src/workspace-api/contract.md.`;

interface Operation {
  readonly path: string;
  readonly method: string;
  readonly operation: Json;
}

type SchemaOf = (schema: ZodType, io: 'input' | 'output') => Json;

function operationsOf({ groups, missing }: ApiDescription, schema: SchemaOf): Operation[] {
  return Object.entries(groups).flatMap(([tag, routes]) =>
    Object.entries(routes)
      .filter(([name]) => !missing?.has(name))
      .flatMap(([name, route]) =>
        addressesOf(name, route).map(({ path, method, operationId }) => ({
          path,
          method: method.toLowerCase(),
          operation: operationOf(route, { tag, operationId, path }, schema),
        })),
      ),
  );
}

function addressesOf(name: string, { path, method, alsoAt, alsoBy }: Route) {
  const second = alsoAt === undefined ? [] : [{ path: alsoAt, method, operationId: `${name}InWorkspace` }];
  const other = alsoBy === undefined ? [] : [{ path, method: alsoBy, operationId: `${name}By${alsoBy}` }];
  return [{ path, method, operationId: name }, ...second, ...other];
}

function operationOf(
  route: Route,
  { tag, operationId, path }: { tag: string; operationId: string; path: string },
  schema: SchemaOf,
): Json {
  return {
    tags: [tag],
    operationId,
    summary: route.summary,
    description: `Rules: ${route.rules}.`,
    parameters: [{ $ref: '#/components/parameters/ApiVersion' }, ...queryParameters(route, schema)],
    ...(route.body && {
      requestBody: { required: true, content: { 'application/json': { schema: schema(route.body, 'input') } } },
    }),
    responses: { ...successes(route, schema), ...failuresOf(route, path) },
    security: securityOf(route),
  };
}

function queryParameters(route: Route, schema: SchemaOf): Json[] {
  if (route.query === undefined) return [];
  // The published schema describes the meaning of a value, and not every accepted spelling.
  const { properties = {}, required = [] } = schema(route.query, 'output') as InputSchema;
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: 'query',
    ...(required.includes(name) && { required: true }),
    schema: property,
  }));
}

function pathParameters(path: string): Json[] {
  return parametersOf(path).map((name) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', pattern: ID_PATTERN.source },
    ...(name === 'workspaceId' && { description: "The workspace's id, or `current`." }),
  }));
}

const DESCRIPTIONS: Readonly<Record<number, string>> = { 200: 'Success', 201: 'Created', 204: 'Done; no body' };

function successes(route: Route, schema: SchemaOf): Json {
  const content = route.response && { 'application/json': { schema: schema(route.response, 'output') } };
  const headers = route.method === 'GET' && { headers: { ETag: { schema: { type: 'string' } } } };
  const entries = successesOf(route).map((status) => [
    status,
    { description: DESCRIPTIONS[status] ?? 'Success', ...headers, ...(status !== 204 && content && { content }) },
  ]);
  return Object.fromEntries(entries) as Json;
}

/** Lists the refusals of a route; all other failures have the error object too. */
function failuresOf(route: Route, path: string): Json {
  const names: Record<string, keyof typeof RESPONSES> = {
    400: 'BadRequest',
    401: 'Unauthorized',
    403: 'Forbidden',
    429: 'RateLimited',
    default: 'Failure',
  };
  if (route.method === 'GET') names[304] = 'NotModified';
  if (parametersOf(path).some((name) => name !== 'workspaceId')) names[404] = 'NotFound';
  if (route.body) names[413] = 'TooLarge';
  return Object.fromEntries(
    Object.entries(names).map(([status, name]) => [status, { $ref: `#/components/responses/${name}` }]),
  );
}

function securityOf({ access }: Route): Json[] {
  return access === undefined ? [{ apiKey: [] }, { oauthToken: [] }] : [{ oauthToken: [] }];
}

const FAILURE = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } };

const RESPONSES = {
  NotModified: { description: 'If-None-Match names the present ETag; no body' },
  BadRequest: { description: 'Malformed request, or another API version than 2', content: FAILURE },
  Unauthorized: { description: 'Missing or invalid credentials', content: FAILURE },
  Forbidden: { description: 'Inaccessible workspace, or a credential without this right', content: FAILURE },
  NotFound: { description: 'No such thing in this workspace', content: FAILURE },
  TooLarge: { description: 'Body over 1 MiB', content: FAILURE },
  RateLimited: {
    description: 'Rate limit exceeded. API keys only: a window of 15 minutes and one of a minute, both sliding',
    headers: { 'Retry-After': { description: 'Seconds, at least 1', schema: { type: 'integer', minimum: 1 } } },
    content: FAILURE,
  },
  Failure: { description: 'Any other failure', content: FAILURE },
} as const;

const SECURITY_SCHEMES = {
  apiKey: { type: 'http', scheme: 'bearer', description: 'A workspace API key. For servers only, never for browsers.' },
  oauthToken: { type: 'http', scheme: 'bearer', description: 'An OAuth access token of a member.' },
} as const;

function versionParameter({ versionHeader, version }: ApiDescription): Json {
  return {
    name: versionHeader,
    in: 'header',
    description: `Only version ${version}; absent means ${version}.`,
    schema: { type: 'string', enum: [version], default: version },
  };
}

/** Schemas with an `id` become components, which all their users share. */
function schemaOf(schema: ZodType, io: 'input' | 'output', shared: Map<string, Json>): Json {
  const { $defs = {}, ...rest } = jsonSchema(schema, io) as { $defs?: Record<string, Json> };
  for (const [name, definition] of Object.entries($defs)) shared.set(name, definition);
  return rest;
}

/** The parts of JSON Schema in which commands describe a query or a body. */
export type InputSchema = Readonly<Partial<Record<'type' | 'const' | 'format' | 'pattern', string>>> &
  Readonly<Partial<Record<'enum' | 'required' | 'x-extensible-enum', readonly string[]>>> & {
    readonly items?: InputSchema;
    readonly anyOf?: readonly InputSchema[];
    readonly oneOf?: readonly InputSchema[];
    readonly properties?: Readonly<Record<string, InputSchema>>;
  };

/** Returns the JSON Schema of a query (`output`) or a body (`input`) by itself, not as a reference to a component. */
export function inputSchema(schema: ZodType, io: 'input' | 'output'): InputSchema {
  const components = new Map<string, Json>();
  const made = schemaOf(schema, io, components);
  return components.values().next().value ?? made;
}

function jsonSchema(schema: ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, ...made } = z.toJSONSchema(schema, { io, unrepresentable: 'any', override: plain(io) });
  const text = JSON.stringify(made).replaceAll('"#/$defs/', '"#/components/schemas/');
  return JSON.parse(text) as Json;
}

/** The service always writes every field, so the defaults of a tolerant reader are not published. */
function plain(io: 'input' | 'output') {
  return ({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }) => {
    if (io === 'output') delete jsonSchema.default;
    delete jsonSchema.additionalProperties;
  };
}

function sorted(schemas: ReadonlyMap<string, Json>): [string, Json][] {
  return [...schemas].toSorted(([one], [other]) => (one < other ? -1 : 1));
}
