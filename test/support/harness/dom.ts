import { parseDocument } from 'htmlparser2';

type Document = ReturnType<typeof parseDocument>;
type ChildNode = Document['children'][number];
type Element = Extract<ChildNode, { readonly attribs: object }>;

export interface Dom {
  all(name?: string): readonly Element[];
  classed(name: string): readonly Element[];
  byId(id: string): Element | undefined;
  /** The words of an element, or of the page, with single spaces. */
  text(element?: Element): string;
}

export function readDom(html: string): Dom {
  const document = parseDocument(html);
  const elements = elementsOf(document);
  return {
    all: (name) => elements.filter((each) => name === undefined || each.name === name),
    classed: (name) => elements.filter(({ attribs }) => attribs['class']?.split(/\s+/).includes(name)),
    byId: (id) => elements.find(({ attribs }) => attribs['id'] === id),
    text: (element) => wordsOf(element ?? document),
  };
}

function elementsOf(node: Document | Element): Element[] {
  return node.children.flatMap((child) => (isElement(child) ? [child, ...elementsOf(child)] : []));
}

function isElement(node: ChildNode): node is Element {
  return node.type === 'tag' || node.type === 'script' || node.type === 'style';
}

function wordsOf(node: Document | Element): string {
  const texts = (of: Document | Element): string =>
    of.children.map((child) => (isElement(child) ? texts(child) : child.type === 'text' ? child.data : '')).join('');
  return texts(node).replace(/\s+/g, ' ').trim();
}
