import { type Node, parseSync, Visitor } from 'oxc-parser';

/** One mistake in one file: the text from `start` to `end` becomes `text`. */
export interface Mutation {
  readonly file: string;
  readonly kind: string;
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

type Found = Omit<Mutation, 'file'>;
type Place = Pick<Node, 'start' | 'end'>;

const BOUNDS: Readonly<Record<string, string>> = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' };

/** What only tells people or meters of the work: without it the work is the same. */
const TELLS = /^(?:await )?(?:[\w#]+\??\.)*#?(?:logger|meter|tracer|spans?|tell\w*)\b/;

/** By which somebody changes only what is still as it was read. */
const CHANGES = /\b(?:updateTable|deleteFrom|doUpdateSet)\(/;

/** Those of a lease, also where they are only read. */
const LEASED = /^\(?'(?:\w+\.)?(?:incarnation|epoch|expires_at)'/;

/** All mistakes that can be made in a file. */
export function mutationsOf(file: string, source: string): Mutation[] {
  const found: Found[] = [];
  const add = (kind: string, { start, end }: Place, text: string) => void found.push({ kind, start, end, text });
  const textOf = ({ start, end }: Place) => source.slice(start, end);
  const invert = (test: Place) => add('a condition is inverted', test, `!(${textOf(test)})`);
  const visitor = new Visitor({
    IfStatement: ({ test }) => invert(test),
    ConditionalExpression: ({ test }) => invert(test),
    LogicalExpression(node) {
      add('an operand is dropped', node, textOf(node.left));
      add('an operand is dropped', node, textOf(node.right));
    },
    BinaryExpression(node) {
      const next = BOUNDS[node.operator];
      if (next) add('a bound is moved by one', node, `${textOf(node.left)} ${next} ${textOf(node.right)}`);
    },
    ExpressionStatement(node) {
      const { expression } = node;
      const isAwaited = expression.type === 'AwaitExpression';
      const isCarriedOut = isAwaited || ['CallExpression', 'AssignmentExpression'].includes(expression.type);
      if (!isCarriedOut || TELLS.test(textOf(expression))) return;
      add('a statement is left out', node, ';');
      if (isAwaited) add('an await is lost', node, `void ${textOf(expression.argument)};`);
    },
    CallExpression(node) {
      const { callee } = node;
      const given = source.slice(callee.end, node.end);
      const [work] = node.arguments;
      const split = work && splitOf(textOf(callee), textOf(work));
      if (split) add('a transaction is split', node, split);
      const rows = /^(.*?)\s*\.where$/s.exec(textOf(callee))?.[1];
      if (rows !== undefined) add('a condition of a filter is dropped', node, rows);
      if (/\.(?:filter|some|find)$/.test(textOf(callee)) && work)
        add('a condition of a filter is dropped', work, '() => true');
      const open = withoutFence(textOf(callee), given);
      if (open) add('a fence is forgotten', node, open);
    },
  });
  visitor.visit(parseSync(file, source).program);
  return found.map((each) => ({ file, ...each }));
}

/** The same statements, each in a transaction of its own. */
function splitOf(callee: string, work: string): string | undefined {
  const [, database, apart] = /^(.*?)\s*\.(?:commit(?:Relaxed)?|(transaction\(\)\s*\.execute))$/s.exec(callee) ?? [];
  if (database === undefined) return undefined;
  return `(${work})(${database}${apart === undefined ? '.query' : ''})`;
}

function withoutFence(callee: string, given: string): string | undefined {
  if (/(?:^|\.)fence(?:Of)?\??\.?$/.test(callee)) return 'undefined';
  if (/(?:^|\.)isTrusted$/.test(callee)) return 'true';
  const [, rows] = /^(.*?)\s*\.where$/s.exec(callee) ?? [];
  if (rows === undefined) return undefined;
  const isGuard = CHANGES.test(rows) && (/\.where\(/.test(rows) || /doUpdateSet\(/.test(rows));
  return isGuard || LEASED.test(given) ? rows : undefined;
}
