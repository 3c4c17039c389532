import { parseSync } from 'oxc-parser';

/** A node of a syntax tree, as the parser gives it. */
export interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

export function parse(file: string, text: string): Node {
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file} cannot be parsed`);
  return program as unknown as Node;
}

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';
}

export function childrenOf(node: Node): readonly Node[] {
  return Object.values(node).flatMap((value) => (Array.isArray(value) ? value : [value]).filter(isNode));
}

export function isFunction({ type }: Node): boolean {
  return /^(?:FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(type);
}

/** Returns the node without type assertions, parentheses, `await` and spread. */
export function bare(node: Node): Node {
  const inner = node['expression'] ?? node['argument'];
  const isWrapped =
    /^(?:TS(?:As|Satisfies|NonNull)Expression|ChainExpression|ParenthesizedExpression|AwaitExpression|SpreadElement)$/;
  return isWrapped.test(node.type) && isNode(inner) ? bare(inner) : node;
}

/** Name of a variable, a property or a key; a text between brackets is a name too. */
export function nameOf(node: Node): string {
  if (node.type === 'Identifier' || node.type === 'PrivateIdentifier') return node['name'] as string;
  if (node.type === 'Literal') return String(node['value']);
  if (node.type !== 'MemberExpression') return '';
  const property = node['property'] as Node;
  return node['computed'] && property.type !== 'Literal' ? '' : nameOf(property);
}
