import type { Command } from 'commander';
import { unknownName } from '../../admin/named.ts';
import { SyncError } from '../../model/errors.ts';
import { type InputSchema, inputSchema } from '../../workspace-api/contract/openapi.ts';
import { parametersOf, problemsOf } from '../../workspace-api/contract/route.ts';
import { ROUTES, type Route, type RouteName } from '../../workspace-api/contract.ts';
import { type KeyFile, keyFile, storingSecret } from '../access/key-rotation.ts';
import { collect, type Setting } from '../command.ts';
import { askQuestions } from '../installation/init-questions.ts';
import { type Fields, send } from '../shorthand.ts';
import { jsonOf } from '../text-input.ts';
import { table } from '../words.ts';
import { type PersonFlags, runOnWorkspace, workspaceCommand } from '../workspace-command.ts';

type Schema = NonNullable<Route['body']>;
type ApiFlags = PersonFlags & {
  readonly query?: readonly string[];
  readonly body?: string;
  readonly yes?: boolean;
  readonly writeTo?: KeyFile;
};

/** Adds a command for each operation of the contract to `worksync api`. */
export function addOperations(group: Command, setting: Setting): void {
  for (const name of Object.keys(ROUTES) as RouteName[]) addOperation(group, name, setting);
}

function addOperation(group: Command, name: RouteName, setting: Setting): void {
  const route: Route = ROUTES[name];
  const { path, method, query, body, secrets = [], summary: description } = route;
  const ids = parametersOf(path).filter((id) => id !== 'workspaceId');
  const usage = [name, ...ids.map((id) => `<${id}>`)].join(' ');
  const isForPeople = route.access !== undefined;
  const asks = method === 'DELETE';
  const help = () => `\n${method} ${path}${describe('Query', query)}${describe('Body', body)}`;
  const example = () => `api ${name}${ids.map((id) => ` ${id.toUpperCase()}`).join('')}${flagsOf(route)}`;
  const command = workspaceCommand(group, { usage, description, example, help, isForPeople });
  if (query) command.option('--query <name=value>', 'a parameter of the query; may be repeated', collect);
  if (body) command.option('--body <json>', 'the body: JSON, @<file>, or @- for standard input');
  if (asks) command.option('--yes', 'do it; without it the command asks on a terminal, and does nothing elsewhere');
  if (secrets.length > 0)
    command.requiredOption('--write-to <file>', `a file for what is shown once: ${secrets.join(', ')}`, keyFile);
  command.action(async () => {
    const flags = command.opts<ApiFlags>();
    const parameters = {
      ...Object.fromEntries(ids.map((id, at) => [id, command.args[at]])),
      query: checked('--query', query, queryOf(query, flags.query)),
      body: checked('--body', body, flags.body === undefined ? undefined : jsonOf(flags.body)),
    };
    if (asks && !flags.yes) await confirm(`${description} (${command.args.join(' ')})`);
    const work: Parameters<typeof runOnWorkspace>[2] = async ({ client }) => {
      const create = () => send(client, name, parameters);
      const answer = await storingSecret(flags.writeTo, create, ({ body }) => textOfSecrets(body as Fields, secrets));
      const shown: Record<string, unknown> = { ...(answer.body ?? { status: answer.status }) };
      for (const field of [...secrets, 'isLast']) delete shown[field];
      return { text: JSON.stringify(shown, null, 2), json: [shown] };
    };
    await runOnWorkspace(setting, flags, work, isForPeople);
  });
}

/** Returns the secret itself, so that other commands can read the file, or several secrets as JSON. */
function textOfSecrets(body: Fields, secrets: readonly string[]): string {
  const [only = '', ...others] = secrets.filter((name) => body[name] !== undefined);
  return others.length === 0 ? String(body[only]) : JSON.stringify(body, [...secrets]);
}

/** Reads `name=value` pairs; a repeated name is a list. Throws `usage`. */
function queryOf(schema: Schema | undefined, pairs: readonly string[] = []): Fields {
  const known = Object.keys((schema && inputSchema(schema, 'output').properties) ?? {});
  const query: Record<string, string | string[]> = {};
  for (const [name = '', ...rest] of pairs.map((pair) => pair.split('='))) {
    if (!known.includes(name)) throw unknownName('parameter', name, known);
    const [before, value] = [query[name], rest.join('=')];
    query[name] = before === undefined ? value : [before, value].flat();
  }
  return query;
}

/** Throws `usage`, which names the fields at fault. */
function checked(flag: string, schema: Schema | undefined, value: unknown): unknown {
  const known = schema ? formsOf(schema, 'input').flatMap(({ properties = {} }) => Object.keys(properties)) : [];
  const names = typeof value === 'object' && !Array.isArray(value) ? Object.keys(value ?? {}) : [];
  const unknown = names.find((name) => known.length > 0 && !known.includes(name));
  if (unknown !== undefined) throw unknownName('field', unknown, known);
  const { error } = schema?.safeParse(value) ?? {};
  if (error) throw new SyncError('usage', `${flag}: ${problemsOf(error)}`);
  return value;
}

/** Returns the forms that a query or a body may have. */
function formsOf(schema: Schema, io: Parameters<typeof inputSchema>[1]): readonly InputSchema[] {
  const { anyOf, ...own } = inputSchema(schema, io);
  return anyOf ?? [own];
}

/** Throws `usage` unless a person at a terminal agrees. */
async function confirm(action: string): Promise<void> {
  const question = { key: 'answer', text: `${action}? Type yes to do it` };
  const { answer } = process.stdin.isTTY ? await askQuestions([question], process.stdin, process.stderr) : {};
  if (answer !== 'yes') throw new SyncError('usage', `nothing was done: ${action}`, { hint: 'Add --yes to do it.' });
}

/** Lists the fields of a query or a body in the help. */
function describe(title: 'Query' | 'Body', schema: Schema | undefined): string {
  if (!schema) return '';
  const forms = formsOf(schema, title === 'Query' ? 'output' : 'input').map(({ properties = {}, required = [] }) =>
    Object.entries(properties)
      .filter(([, field]) => !('not' in field))
      .map(([name, field]) => [`  ${name}`, typeOf(field), required.includes(name) ? 'required' : '']),
  );
  return `\n${title}:\n${forms.map(table).join('\nor:\n')}`;
}

function typeOf({ enum: values, type = 'object', items, anyOf, 'x-extensible-enum': known }: InputSchema): string {
  if (anyOf) return anyOf.map(typeOf).join(' or ');
  return items ? `list of ${typeOf(items)}` : ((values ?? known)?.join(' | ') ?? type);
}

/** Returns the flags of an example. The contract accepts its body. */
function flagsOf({ body, secrets, method }: Route): string {
  if (!body) return method === 'DELETE' ? ' --yes' : '';
  const schema = inputSchema(body, 'input');
  const small = sampleOf(schema);
  // Some bodies need more than the fields that their schema requires.
  const sample = body.safeParse(small).success ? small : sampleOf(schema, true);
  return ` --body '${JSON.stringify(sample)}'${secrets ? ' --write-to secret.key' : ''}`;
}

const SAMPLES = ['text', 'image/png', 'https://example.com/hook'];

function sampleOf(schema: InputSchema, isWhole = false): unknown {
  const { const: only, enum: [value = only] = [], type, items, properties = {}, required = [] } = schema;
  const [variant] = schema.anyOf ?? schema.oneOf ?? [];
  if (variant) return sampleOf(variant);
  if (value !== undefined) return value;
  if (items) return [sampleOf(items)];
  if (type === 'integer') return 1;
  const pattern = new RegExp(schema.format === 'uri' ? '^https:' : (schema.pattern ?? ''));
  if (type === 'string') return SAMPLES.find((sample) => pattern.test(sample));
  const names = Object.keys(properties).filter((name) => isWhole || required.includes(name));
  return Object.fromEntries(names.map((name) => [name, sampleOf(properties[name]!)]));
}
