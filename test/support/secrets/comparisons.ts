import { type Flow, flowOf, type Scope, type Source } from './secret-flow.ts';
import { bare, isNode, type Node, nameOf } from './syntax.ts';

/** Methods and functions that end earlier the sooner two values differ, or that look one up by the other. */
const COMPARES =
  /^(?:includes|indexOf|lastIndexOf|startsWith|endsWith|localeCompare|equals|compare|equal|strictEqual|deepEqual|deepStrictEqual|isDeepStrictEqual|is|has|get|search|where|matches)$/;
const SIGNS = /^(?:[!=]==?|[<>]=?|in)$/;

/** Places of the sources, with their file, that compare a secret in another way than `isSameSecret` does. */
export function comparisonsOfSecrets(sources: readonly Source[]): readonly string[] {
  const flow = flowOf(sources);
  const found = new Set<string>();
  flow.visit((node, scope, { file, text }) => {
    const compared = sidesOf(node, scope, flow);
    const isOfSecret = compared.length > 1 && compared.some((side) => flow.isSecret(side, scope));
    const isWithConstant = compared.some((side) => isLength(side) || (isConstant(side) && !flow.isSecret(side, scope)));
    const place = `${file}: ${text.slice(node.start, node.end).replaceAll(/\s+/g, ' ')}`;
    if ((isOfSecret && !isWithConstant) || isMadeOfSecret(node, scope, flow)) found.add(place);
  });
  return [...found].toSorted();
}

/** What a node compares; nothing where it compares nothing. */
function sidesOf(node: Node, scope: Scope, flow: Flow): readonly Node[] {
  if (node.type === 'BinaryExpression')
    return SIGNS.test(String(node['operator'])) ? [node['left'] as Node, node['right'] as Node] : [];
  if (node.type === 'SwitchStatement') {
    const tests = (node['cases'] as Node[]).map((each) => each['test']).filter(isNode);
    return [node['discriminant'] as Node, ...tests.filter((test) => !isConstant(test))];
  }
  if (node.type !== 'CallExpression') return [];
  const callee = bare(node['callee'] as Node);
  if (!COMPARES.test(nameOf(callee)) || flow.isOwn(callee, scope)) return [];
  const given = node['arguments'] as Node[];
  // With more it is a request.
  if (/^(?:get|has)$/.test(nameOf(callee)) && given.length > 1) return [];
  // A column and a sign come before what rows are compared with. Of a digest no beginning tells anything.
  if (nameOf(callee) === 'where')
    return given.slice(-1).flatMap((each) => (nameOf(each) === 'digest' ? [] : [each, each]));
  // `Buffer.compare(one, other)` compares what it is given, `one.equals(other)` also what it is called on.
  const isOn = callee.type === 'MemberExpression' && given.length === 1;
  return isOn ? [callee['object'] as Node, ...given] : given;
}

/** A pattern, or a key of a table. */
function isMadeOfSecret(node: Node, scope: Scope, flow: Flow): boolean {
  if (node.type === 'MemberExpression')
    return (
      node['computed'] === true &&
      flow.isSecret(node['property'] as Node, scope) &&
      !isConstant(node['property'] as Node)
    );
  const isPattern = /^(?:New|Call)Expression$/.test(node.type) && nameOf(bare(node['callee'] as Node)) === 'RegExp';
  return isPattern && (node['arguments'] as Node[]).some((each) => flow.isSecret(each, scope));
}

function isLength(given: Node): boolean {
  return /^(?:length|byteLength|size)$/.test(nameOf(bare(given)));
}

/** Whether something is there, of which kind it is, or what stands in the sources anyway. */
function isConstant(given: Node): boolean {
  const node = bare(given);
  if (node.type === 'TemplateLiteral') return (node['expressions'] as Node[]).length === 0;
  if (node.type === 'Identifier') return /^(?:undefined|[A-Z][A-Z0-9_]+)$/.test(nameOf(node));
  return node.type === 'Literal' || node.type === 'UnaryExpression';
}
