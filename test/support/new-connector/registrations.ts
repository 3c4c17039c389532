import type { Names } from './names.ts';

interface Registration {
  readonly path: string;
  /** The text of the file with the new connector in it. */
  edit(text: string): string;
}

/** Every place that lists connectors by hand; what is generated from the registry is not among them. */
export function registrations(names: Names): readonly Registration[] {
  const { id, name, title, ENV } = names;
  const key = id === name ? id : `'${id}'`;
  return [
    {
      path: 'src/connectors/registry.ts',
      edit: (text) => listed(imported(text, `import { ${name} } from './${id}/index.ts';`), name),
    },
    {
      path: 'test/contracts/connectors/index.ts',
      edit: (text) => listed(imported(text, `import { profile as ${name} } from './${id}.ts';`), name),
    },
    {
      path: 'test/support/model-providers/index.ts',
      edit: (text) => listed(imported(text, `import { ${name} } from './${id}.ts';`), name),
    },
    {
      path: 'test/support/vendor-requests/index.ts',
      edit: (text) =>
        listed(imported(text, `import { ${name} } from './${id}.ts';`), id === name ? name : `${key}: ${name}`),
    },
    {
      path: 'test/laws/scope-names.test.ts',
      edit: (text) =>
        before(
          text,
          '  generic: {\n',
          `  ${key}: {
    id: numbered,
    name: plain,
    render: (provider, { id, name }) => webhook(provider, () => ({ 'item.project': { id, key: name } })),
  },\n`,
        ),
    },
    {
      path: 'test/deep/canaries.test.ts',
      edit: (text) =>
        before(
          text,
          '    generic: {\n',
          `    ${key}: {
      ...{ connector: '${id}', apiUrl: api(port, '${id}'), projects: ['app'] },
      token: secret('${ENV}_TOKEN'),
      ...hooks('${ENV}'),
    },\n`,
        ),
    },
    { path: 'README.md', edit: (text) => before(text, '| anything that speaks', row(title, id)) },
  ];
}

/** The formatter puts imports in order. */
function imported(text: string, line: string): string {
  return before(text, 'import ', `${line}\n`);
}

/** Puts an entry into the one list of the file, in the order of names. */
function listed(text: string, entry: string): string {
  const list = /(?<= = [[{]\n)(?: {2}.+,\n)+(?=[\]}];\n)/.exec(text);
  if (!list) throw new Error('the file has no list to put the connector into');
  const lines = list[0].split(/(?<=\n)/);
  const at = lines.findIndex((line) => wordOf(line) > wordOf(entry));
  const inserted = lines.toSpliced(at === -1 ? lines.length : at, 0, `  ${entry},\n`);
  return text.slice(0, list.index) + inserted.join('') + text.slice(list.index + list[0].length);
}

function wordOf(line: string): string {
  return line.replace(/[^A-Za-z0-9]/g, '').toLowerCase();
}

function before(text: string, anchor: string, added: string): string {
  const at = text.indexOf(anchor);
  if (at === -1) throw new Error(`the file has no "${anchor.trim()}" to put the connector before`);
  return text.slice(0, at) + added + text.slice(at);
}

/** As wide as the other rows of the table. */
function row(title: string, id: string): string {
  return `| ${title.padEnd(45)} | –             | yes        | ${`[${id}](src/connectors/${id}/README.md)`.padEnd(53)} |\n`;
}
