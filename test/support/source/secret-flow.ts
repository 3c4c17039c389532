import { join, normalize } from 'node:path';
import { bare, childrenOf, isFunction, isNode, type Node, nameOf, parse } from './syntax.ts';

/**
 * Which values of the sources are secrets: what bears the name of one, and what is made of those, under whatever name, through variables,
 * parameters and results of functions, in other files too. A hash of a secret is none.
 */

export interface Source {
  /** Path from the top of the project. */
  readonly file: string;
  readonly text: string;
}

interface Variable {
  isSecret: boolean;
  /** The function that it stands for. */
  made?: Node | undefined;
}

export interface Scope {
  readonly file: string;
  readonly above?: Scope;
  readonly names: Map<string, Variable>;
}

export interface Flow {
  isSecret(node: Node, scope: Scope): boolean;
  /** Whether the function that is called is one of the sources. */
  isOwn(callee: Node, scope: Scope): boolean;
  /** Shows each node of the sources, with the names that it knows. */
  visit(see: (node: Node, scope: Scope, source: Source) => void): void;
}

/** Names of values that prove who somebody is. */
const SECRET =
  /(?:secrets?|signatures?|passwords?|hmacs?|mac|apikeys?|nonce|pagetoken|authorization|cookie)$|^(?:digest|token|bearer|given(?:Key|Token|Secret))$/i;
/** Functions that make such values, and headers that bear them. */
const MAKES = /^(?:createHmac|hmacOf|macOf|signatureOf|passwordOf|bearerOf|sign[A-Z]?\w*)$/;
const HEADER = /^[a-z-]*(?:secret|signature|token|authorization|api-key|cookie)(?:-256)?$/;
/** They tell nothing of what they are given. */
const CLEAN = /^(?:hash|createHash|isSameSecret|timingSafeEqual|sha256Of|digestOf)$/;
/** Whose results hold what they are given, or what they are called on. */
const HANDS_ON =
  /^(?:from|concat|of|String|encodeURIComponent|decodeURIComponent|btoa|atob|stringify|structuredClone|freeze|all|slice|substring|substr|subarray|trim\w*|toString|toWellFormed|to(?:Lower|Upper)Case|split|at|charAt|charCodeAt|codePointAt|pad\w+|replace\w*|normalize|valueOf|join|map|filter|find|findLast|flat|flatMap|values|keys|entries|reverse|toReversed|toSorted|update|digest|exec|match|matchAll|write|readUInt8|readUInt32BE|readBigUInt64BE|shift|pop)$/;
const WALKS = /^(?:map|filter|some|every|find|findLast|findIndex|findLastIndex|flatMap|forEach|reduce|reduceRight)$/;

/** A node, where it stands. */
interface Place {
  readonly node: Node;
  readonly scope: Scope;
  readonly source: Source;
  /** The function around it. */
  readonly inside: Node | undefined;
}

export function flowOf(sources: readonly Source[]): Flow {
  const files = new Map<string, Scope>();
  const places: Place[] = [];
  const scopes = new Map<Node, Scope>();
  const returns = new Set<Node>();
  /** Names of fields that were given one, by file. */
  const fields = new Set<string>();
  let hasChanged = true;

  function find(name: string, scope: Scope | undefined): Variable | undefined {
    return scope && (scope.names.get(name) ?? find(name, scope.above));
  }

  function declare(node: Node, scope: Scope): void {
    if (node.type === 'Identifier') scope.names.set(nameOf(node), { isSecret: false });
    else for (const part of partsOf(node)) declare(part.to, scope);
  }

  function prepare(node: Node, scope: Scope, source: Source, around?: Node): void {
    if (node.type === 'ImportSpecifier' || node.type === 'ImportDefaultSpecifier')
      declare(node['local'] as Node, scope);
    if (node.type === 'VariableDeclarator') declare(node['id'] as Node, scope);
    if (node.type === 'CatchClause' && isNode(node['param'])) declare(node['param'], scope);
    if (node.type === 'FunctionDeclaration' && isNode(node['id'])) {
      declare(node['id'], scope);
      scope.names.get(nameOf(node['id']))!.made = node;
    }
    const own = isFunction(node) ? { file: scope.file, above: scope, names: new Map<string, Variable>() } : scope;
    if (own !== scope) {
      scopes.set(node, own);
      for (const parameter of node['params'] as Node[]) declare(parameter, own);
    }
    const inside = isFunction(node) ? node : around;
    places.push({ node, scope: own, source, inside });
    for (const child of childrenOf(node)) prepare(child, own, source, inside);
    const [id, init] = [node['id'], node['init']];
    if (node.type === 'VariableDeclarator' && isNode(init) && isFunction(init) && isNode(id)) {
      const variable = scope.names.get(nameOf(id));
      if (variable) variable.made = init;
    }
  }

  /** A name that is imported is the variable of the file that it comes from. */
  function joinNames({ node, scope }: Place): void {
    if (node.type !== 'ImportDeclaration') return;
    const from = String((node['source'] as Node)['value']);
    const other = from.startsWith('.') ? files.get(normalize(join(scope.file, '..', from))) : undefined;
    for (const each of node['specifiers'] as Node[]) {
      const variable = other && isNode(each['imported']) && other.names.get(nameOf(each['imported']));
      if (variable) scope.names.set(nameOf(each['local'] as Node), variable);
    }
  }

  function mark(target: Node, scope: Scope, isSecretValue: boolean): void {
    if (target.type === 'Identifier') {
      const variable = find(nameOf(target), scope);
      if (variable && isSecretValue && !variable.isSecret) hasChanged = variable.isSecret = true;
      return;
    }
    if (target.type === 'MemberExpression' && isSecretValue) fill(nameOf(target), scope);
    for (const { key, to } of partsOf(target))
      mark(to, scope, isSecretValue || isSecretName(key) || fields.has(`${scope.file} ${key}`));
  }

  function fill(name: string, { file }: Scope): void {
    const field = `${file} ${name}`;
    if (name === '' || fields.has(field)) return;
    fields.add(field);
    hasChanged = true;
  }

  function functionOf(callee: Node, scope: Scope): Node | undefined {
    if (isFunction(callee)) return callee;
    return callee.type === 'Identifier' ? find(nameOf(callee), scope)?.made : undefined;
  }

  function give(called: Node, given: readonly boolean[]): void {
    const scope = scopes.get(called) as Scope;
    for (const [at, parameter] of (called['params'] as Node[]).entries()) mark(parameter, scope, given[at] ?? false);
  }

  function isSecret(given: Node, scope: Scope): boolean {
    const node = bare(given);
    const part = (field: string) => isNode(node[field]) && isSecret(node[field], scope);
    const some = (field: string) => (node[field] as Node[]).some((each) => isNode(each) && isSecret(each, scope));
    switch (node.type) {
      case 'Identifier':
        return find(nameOf(node), scope)?.isSecret === true || isSecretName(nameOf(node));
      case 'MemberExpression':
        if (nameOf(node) === '') return part('object');
        return isSecretName(nameOf(node)) || fields.has(`${scope.file} ${nameOf(node)}`);
      case 'CallExpression':
        return isSecretCall(node, scope);
      case 'NewExpression':
        return some('arguments');
      case 'TemplateLiteral':
        return some('expressions');
      case 'ArrayExpression':
        return some('elements');
      case 'BinaryExpression':
        return node['operator'] === '+' && (part('left') || part('right'));
      case 'LogicalExpression':
        return part('left') || part('right');
      case 'ConditionalExpression':
        return part('consequent') || part('alternate');
      case 'AssignmentExpression':
        return part('right');
      default:
        return false;
    }
  }

  function isSecretCall(node: Node, scope: Scope): boolean {
    const callee = bare(node['callee'] as Node);
    const name = nameOf(callee);
    if (CLEAN.test(name)) return false;
    const called = functionOf(callee, scope);
    if (MAKES.test(name) || (called && returns.has(called))) return true;
    // Of a header by its name.
    const given = node['arguments'] as Node[];
    if (given.some((each) => each.type === 'Literal' && HEADER.test(nameOf(each)))) return true;
    if (!HANDS_ON.test(name)) return false;
    const isOn = callee.type === 'MemberExpression' && isSecret(callee['object'] as Node, scope);
    const isHashed = callee.type === 'MemberExpression' && rootOf(callee) === 'createHash';
    return !isHashed && (isOn || given.some((each) => isSecret(each, scope)));
  }

  function follow({ node, scope }: Place): void {
    const [id, init] = [node['id'], node['init']];
    if (node.type === 'VariableDeclarator' && isNode(id)) mark(id, scope, isNode(init) && isSecret(init, scope));
    if (node.type === 'AssignmentExpression') mark(node['left'] as Node, scope, isSecret(node['right'] as Node, scope));
    if (
      node.type === 'PropertyDefinition' ||
      (node.type === 'Property' && isNode(node['value']) && !isFunction(node['value']))
    )
      if (isNode(node['value']) && isSecret(node['value'], scope)) fill(nameOf(node['key'] as Node), scope);
    if (node.type === 'ForOfStatement') {
      const [declaration] = ((node['left'] as Node)['declarations'] as Node[] | undefined) ?? [];
      if (declaration) mark(declaration['id'] as Node, scope, isSecret(node['right'] as Node, scope));
    }
    if (isFunction(node)) give(node, []);
    if (node.type === 'CallExpression') followCall(node, scope);
  }

  function followCall(node: Node, scope: Scope): void {
    const callee = bare(node['callee'] as Node);
    const given = node['arguments'] as Node[];
    const called = functionOf(callee, scope);
    if (called && !CLEAN.test(nameOf(callee)))
      give(
        called,
        given.map((each) => isSecret(each, scope)),
      );
    if (callee.type !== 'MemberExpression' || !WALKS.test(nameOf(callee))) return;
    const [walker] = given;
    const inner = walker && functionOf(bare(walker), scope);
    if (inner && isSecret(callee['object'] as Node, scope)) give(inner, [true, nameOf(callee).startsWith('reduce')]);
  }

  function noteResult({ node, scope, inside }: Place): void {
    const isArrow = node.type === 'ArrowFunctionExpression' && (node['body'] as Node).type !== 'BlockStatement';
    const result = isArrow ? (node['body'] as Node) : node.type === 'ReturnStatement' ? node['argument'] : undefined;
    if (!inside || returns.has(inside) || !isNode(result) || !isSecret(result, scope)) return;
    returns.add(inside);
    hasChanged = true;
  }

  for (const source of sources) {
    const scope: Scope = { file: source.file, names: new Map() };
    files.set(source.file, scope);
    prepare(parse(source.file, source.text), scope, source);
  }
  for (const place of places) joinNames(place);
  while (hasChanged) {
    hasChanged = false;
    for (const place of places) {
      follow(place);
      noteResult(place);
    }
  }
  return {
    isSecret,
    isOwn: (callee, scope) => functionOf(callee, scope) !== undefined,
    visit(see) {
      for (const { node, scope, source } of places) see(node, scope, source);
    },
  };
}

/** Parts that a destructuring pattern names, each with its previous name. */
function partsOf(node: Node): readonly { readonly key: string; readonly to: Node }[] {
  const plain = (to: unknown, key = '') => (isNode(to) ? [{ key, to }] : []);
  if (node.type === 'AssignmentPattern') return plain(node['left']);
  if (node.type === 'RestElement') return plain(node['argument']);
  if (node.type === 'TSParameterProperty') return plain(node['parameter']);
  if (node.type === 'ArrayPattern') return (node['elements'] as unknown[]).flatMap((each) => plain(each));
  if (node.type !== 'ObjectPattern') return [];
  return (node['properties'] as Node[]).flatMap((each) =>
    each.type === 'RestElement' ? plain(each) : plain(each['value'], nameOf(each['key'] as Node)),
  );
}

function isSecretName(name: string): boolean {
  return SECRET.test(name) || HEADER.test(name);
}

/** The function whose result a chain of calls begins with. */
function rootOf(node: Node): string {
  if (node.type === 'MemberExpression') return rootOf(bare(node['object'] as Node));
  if (node.type !== 'CallExpression') return '';
  const callee = bare(node['callee'] as Node);
  return callee.type === 'Identifier' ? nameOf(callee) : rootOf(callee);
}
