import type { Command } from 'commander';
import { unknownName } from '../admin/named.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { type InputSchema, inputSchema } from '../workspace-api/contract/openapi.ts';
import { parametersOf } from '../workspace-api/contract/route-path.ts';
import { problemsOf } from '../workspace-api/contract/value-schemas.ts';
import { ROUTES, type Route, type RouteName } from '../workspace-api/contract.ts';
import { type KeyFile, keyFile, storingSecret } from './api-key-file.ts';
import { askQuestions } from './init-questions.ts';
import type { Exit, Setting } from './setting.ts';
import { type Fields, send } from './shorthand.ts';
import { jsonOf } from './text-input.ts';
import { table } from './words.ts';
import { gather, type PersonFlags, runOnWorkspace, workspaceCommand } from './workspace-command.ts';

type ApiFlags = PersonFlags & {
  readonly query?: readonly string[];
  readonly body?: string;
  readonly yes?: boolean;
  readonly writeTo?: KeyFile;
};

/** Adds a command for each operation of the contract to `worksync api`. */
export function addOperations(group: Command, setting: Setting, exit: Exit): void {
  for (const name of Object.keys(ROUTES) as RouteName[]) addOperation(group, name, setting, exit);
}

function addOperation(group: Command, name: RouteName, setting: Setting, exit: Exit): void {
  const route: Route = ROUTES[name];
  const ids = parametersOf(route.path).filter((id) => id !== 'workspaceId');
  const usage = [name, ...ids.map((id) => `<${id}>`)].join(' ');
  const described = {
    usage,
    description: route.summary,
    get example() {
      return exampleOf(name, ids, route);
    },
  };
  const isForPeople = route.access !== 'any';
  const command = workspaceCommand(group, described, { isForPeople });
  const { query, body, secrets, method } = route;
  const asks = method === 'DELETE';
  if (query) command.option('--query <name=value>', 'a parameter of the query; may be repeated', gather);
  if (body) {
    const option = body.safeParse(undefined).success ? 'option' : 'requiredOption';
    command[option]('--body <json>', 'the body: JSON, @<file>, or @- for standard input');
  }
  if (secrets)
    command.requiredOption('--write-to <file>', `a file for what is shown once: ${secrets.join(', ')}`, keyFile);
  if (asks) command.option('--yes', 'do it; without it the command asks on a terminal, and does nothing elsewhere');
  command
    .addHelpText('after', () => `\n${method} ${route.path}${describe('Query', query)}${describe('Body', body)}`)
    .action(async () => {
      const flags = command.opts<ApiFlags>();
      const parameters = {
        ...Object.fromEntries(ids.map((id, at) => [id, command.args[at]])),
        ...(query && { query: queryOf(query, flags.query) }),
        ...(body && { body: bodyOf(body, flags.body) }),
      };
      if (asks && !flags.yes) await confirm(`${route.summary} (${command.args.join(' ')})`);
      await runOnWorkspace(
        setting,
        exit,
        flags,
        async (client) => {
          const answer = await storingSecret(
            flags.writeTo,
            () => send(client, name, parameters),
            (created) => secretOf(created.body as Fields, secrets),
          );
          const shown =
            answer.body === undefined ? { status: answer.status } : withoutFields(answer.body as Fields, secrets);
          return { text: JSON.stringify(shown, null, 2), json: [shown] };
        },
        isForPeople,
      );
    });
}

type Schema = NonNullable<Route['body']>;

/** Reads `name=value` pairs; a repeated name is a list. Throws `usage`. */
function queryOf(schema: Schema, pairs: readonly string[] = []): Fields {
  const known = Object.keys(inputSchema(schema, 'output').properties ?? {});
  const query: Record<string, string | string[]> = {};
  for (const pair of pairs) {
    const [name = '', ...rest] = pair.split('=');
    if (!known.includes(name)) throw unknownName('parameter', name, known);
    const value = rest.join('=');
    query[name] = name in query ? [query[name] ?? [], value].flat() : value;
  }
  refuseProblems(schema, query, '--query');
  return query;
}

/** Throws `usage`. */
function bodyOf(schema: Schema, given: string | undefined): unknown {
  const body = given === undefined ? undefined : jsonOf(given);
  refuseProblems(schema, body, '--body');
  return body;
}

function refuseProblems(schema: Schema, value: unknown, flag: string): void {
  const { error } = schema.safeParse(value);
  if (error) throw new SyncError('usage', `${flag}: ${problemsOf(error)}`);
}

/** Throws `usage` unless a person at a terminal agrees. */
async function confirm(action: string): Promise<void> {
  const question = { key: 'answer', text: `${action}? Type yes to do it` };
  const { answer } = process.stdin.isTTY ? await askQuestions([question], process.stdin, process.stderr) : {};
  if (answer !== 'yes') throw new SyncError('usage', `nothing was done: ${action}`, { hint: 'Add --yes to do it.' });
}

/** One secret as it is, several as JSON. */
function secretOf(body: Fields, names: readonly string[] = []): string {
  const secrets = Object.fromEntries(names.map((name) => [name, body[name]]));
  return names.length === 1 ? String(body[names[0]!]) : JSON.stringify(secrets);
}

/** Leaves secrets out, and what the client adds to a list. */
function withoutFields(body: Fields, secrets: readonly string[] = []): Fields {
  return Object.fromEntries(Object.entries(body).filter(([name]) => ![...secrets, 'isLast'].includes(name)));
}

/** Lists the fields of a query or a body in the help. */
function describe(title: string, schema: Schema | undefined): string {
  if (!schema) return '';
  const { anyOf, ...own } = inputSchema(schema, title === 'Query' ? 'output' : 'input');
  const forms = (anyOf ?? [own]).map(({ properties = {}, required = [] }) =>
    table(
      Object.entries(properties).map(([name, field]) => [
        `  ${name}`,
        `${typeOf(field)}${required.includes(name) ? ', required' : ''}`,
      ]),
    ),
  );
  return `\n${title}:\n${forms.join('\nor:\n')}`;
}

function typeOf({ enum: values, type, items, anyOf, 'x-extensible-enum': known }: InputSchema): string {
  if (anyOf) return anyOf.map(typeOf).join(' or ');
  if (items) return `list of ${typeOf(items)}`;
  return (values ?? known)?.join(' | ') ?? type ?? 'object';
}

/** Makes an example that the contract accepts, from the fields that it requires. */
function exampleOf(name: RouteName, ids: readonly string[], { query, body, secrets, method }: Route): string {
  const [parameter] = query ? Object.entries(inputSchema(query, 'output').properties ?? {}) : [];
  const words = [
    ...ids.map((id) => id.replace(/[A-Z]/, '_$&').toUpperCase()),
    ...(parameter ? [`--query ${parameter[0]}=${[sampleOf(parameter[1])].flat().join()}`] : []),
    ...(body ? [`--body '${JSON.stringify(sampleBody(body))}'`] : []),
    ...(secrets ? ['--write-to secret.key'] : []),
    ...(method === 'DELETE' ? ['--yes'] : []),
  ];
  return ['api', name, ...words].join(' ');
}

/** Some bodies need more than the fields that their schema requires. */
function sampleBody(schema: Schema): unknown {
  const described = inputSchema(schema, 'input');
  const sample = sampleOf(described);
  return schema.safeParse(sample).success ? sample : sampleOf(described, true);
}

const WORDS = ['text', 'image/png', 'https://example.com/hook', '2027-01-31T12:00:00Z'];

function sampleOf(schema: InputSchema, isWhole = false): unknown {
  const {
    const: value,
    enum: values,
    type,
    items,
    format,
    pattern,
    properties = {},
    required = [],
    minimum = 1,
  } = schema;
  const [variant] = schema.anyOf ?? schema.oneOf ?? [];
  if (variant) return sampleOf(variant);
  if (value !== undefined || values) return value ?? values?.[0];
  if (items) return [sampleOf(items)];
  if (type === 'boolean') return true;
  if (type === 'integer') return Math.max(1, minimum);
  if (type === 'string')
    return format ? WORDS[format === 'uri' ? 2 : 3] : WORDS.find((word) => new RegExp(pattern ?? '').test(word));
  const names = Object.keys(properties).filter((name) => isWhole || required.includes(name));
  return Object.fromEntries(names.map((name) => [name, sampleOf(properties[name]!)]));
}
