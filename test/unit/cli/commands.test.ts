import { describe, expect, it } from 'vitest';
import { allCommands, commandLine } from '../../support/harness/command-line.ts';

/** What all commands have in common, looked at in every one of them. */

const LEAVES = await allCommands();

describe.each(LEAVES.map(({ path, command }) => [path.join(' '), { path, command }] as const))('%s', (name, leaf) => {
  const { path, command } = leaf;

  it('explains itself, with an example that begins as it does', async () => {
    const { code, stdout } = await commandLine(...path, '--help');
    expect(code).toBe(0);
    expect(command.description()).not.toBe('');
    const examples = [...stdout.matchAll(/worksync(?: --)? ([a-z][^\n]*)/g)].map((match) => match[1] as string);
    const begins = path.at(-1) === 'list' ? path.slice(0, -1).join(' ') : name;
    expect(examples.filter((example) => example.startsWith(begins))).not.toEqual([]);
  });

  it('shows each default once, and as people write it', async () => {
    const { stdout } = await commandLine(...path, '--help');
    expect(stdout.replaceAll(/\n {3,}/g, ' ')).not.toMatch(/default: [0-9]{5,}\b|\(default: [^)]*\) \(default: /);
  });

  it('suggests an option for what is nearly one', async () => {
    const [option] = command.createHelp().visibleOptions(command);
    const misspelt = `${option?.long?.slice(0, -1)}q`;
    const required = command.options.filter(({ mandatory }) => mandatory);
    const given = required.flatMap(({ long, required: takesValue }) => [
      long as string,
      ...(takesValue ? ['github'] : []),
    ]);
    const { code, stdout, stderr } = await commandLine(...path, ...given, misspelt);
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain(`unknown option '${misspelt}'\n(Did you mean `);
  });
});

const GROUPS = [...new Set(LEAVES.flatMap(({ path }) => path.map((_, depth) => path.slice(0, depth).join(' '))))];

it.each(GROUPS)('"%s" suggests a command for what is nearly one', async (group) => {
  const path = group === '' ? [] : group.split(' ');
  const [leaf] = LEAVES.filter((each) => each.path.join(' ').startsWith(group) && each.path.length > path.length);
  const known = leaf!.path[path.length] as string;
  const { code, stderr } = await commandLine(...path, `${known}x`);
  expect(code).toBe(2);
  expect(stderr).toMatch(new RegExp(`did you mean "?${known}`, 'i'));
});

it.each(GROUPS)('the help of "%s" shows the options of the command that may be left out', async (group) => {
  const path = group === '' ? [] : group.split(' ');
  const { stdout } = await commandLine(...path, '--help');
  const standard = /^ {2}(\S+) .*(?:\n {3,}.*)*\(the\s+default\)/m.exec(stdout)?.[1];
  if (standard === undefined) return expect(stdout).not.toContain('which may be left out');
  const leaf = LEAVES.find((each) => each.path.join(' ') === `${group} ${standard}`);
  const [, shown = ''] = stdout.split(`Options of ${standard}, which may be left out:\n`);
  const options = leaf!.command.createHelp().visibleOptions(leaf!.command);
  expect(options.filter(({ flags }) => !shown.includes(`  ${flags} `))).toEqual([]);
});
