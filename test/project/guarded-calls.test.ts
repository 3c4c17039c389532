import { globSync, readFileSync } from 'node:fs';
import { type Expression, type PrivateIdentifier, parseSync, Visitor } from 'oxc-parser';
import { describe, expect, it } from 'vitest';

/** Calls that are forbidden in the sources, because reviews would overlook them. */

type Side = Expression | PrivateIdentifier;

function nameOf(node: Side): string {
  if (node.type === 'Identifier') return node.name;
  if (node.type === 'MemberExpression' && node.property.type === 'Identifier') return node.property.name;
  if (node.type === 'CallExpression') return nameOf(node.callee as Side);
  return '';
}

const rawSql = new Set<string>();
const evaluated = new Set<string>();

for (const file of globSync('src/**/*.ts').toSorted()) {
  const source = readFileSync(file, 'utf8');
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file} cannot be parsed`);
  const textOf = ({ start, end }: { start: number; end: number }) => `${file}: ${source.slice(start, end)}`;
  new Visitor({
    CallExpression(node) {
      const { callee, arguments: given } = node;
      if (callee.type === 'Identifier' && ['eval', 'Function'].includes(callee.name)) evaluated.add(textOf(node));
      if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier') return;
      // `sql.ref` and its like quote what they are given.
      const isRaw = callee.property.name === 'raw' && nameOf(callee.object as Side) === 'sql';
      const isFixed = given.every((each) => isConstantText(each as Side));
      if (isRaw && !isFixed) rawSql.add(textOf(node));
    },
    NewExpression(node) {
      if (node.callee.type === 'Identifier' && node.callee.name === 'Function') evaluated.add(textOf(node));
    },
  }).visit(program);
}

/** One that stands in the sources as it is. */
function isConstantText(node: Side): boolean {
  if (node.type === 'TaggedTemplateExpression') return node.quasi.expressions.length === 0;
  return node.type === 'Literal' || (node.type === 'TemplateLiteral' && node.expressions.length === 0);
}

describe('in the sources', () => {
  it('no SQL is made of a text that is not in them', () => {
    expect([...rawSql]).toEqual([]);
  });

  it('no text is run as a program', () => {
    expect([...evaluated]).toEqual([]);
  });
});
