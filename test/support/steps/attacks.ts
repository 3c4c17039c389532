import { type AST, RegExpParser } from '@eslint-community/regexpp';

/**
 * Texts that a backtracking search for this pattern finds hard, of about the given length: parts of what it matches,
 * repeated, with what may stand before them and something behind that does not fit.
 */
export function attacksOn({ source, flags }: RegExp, length: number): string[] {
  const pattern = new RegExpParser({ ecmaVersion: 2025 }).parsePattern(source, 0, source.length, {
    unicode: flags.includes('u'),
    unicodeSets: flags.includes('v'),
  });
  const parts = new Map<string, string>();
  collect(pattern.alternatives, '', parts);
  const attacks = new Set<string>();
  for (const [part, before] of parts) {
    const times = Math.ceil(length / part.length);
    for (const suffix of ['', '\0', '\n', 'x', ' ']) {
      attacks.add(part.repeat(times) + suffix);
      attacks.add(before + part.repeat(times) + suffix);
      attacks.add((before + part).repeat(Math.ceil(length / (before.length + part.length))) + suffix);
      attacks.add(before.repeat(Math.ceil(length / 2 / (before.length || length))) + part.repeat(times / 2) + suffix);
    }
  }
  return [...attacks].filter((text) => text.length <= length * 2);
}

/** Each part of the pattern as a text that it matches, with a text of what stands before it. */
function collect(alternatives: readonly AST.Alternative[], before: string, parts: Map<string, string>): void {
  for (const { elements } of alternatives) {
    let sofar = before;
    for (const element of elements) {
      const inner = element.type === 'Quantifier' ? element.element : element;
      if ('alternatives' in inner) collect(inner.alternatives, sofar, parts);
      for (const text of samples(element)) {
        if (text !== '' && !parts.has(text)) parts.set(text, sofar);
      }
      sofar += samples(element).at(-1) ?? '';
      if (sofar !== '' && !parts.has(sofar)) parts.set(sofar, '');
    }
  }
}

const CANDIDATES = Array.from(' \t\n#-./:;,!?()[]{}<>"\'`*_~|=+@%&$^\\aAzZ0159xé😀');

/** A few texts that the element matches, the shortest first. */
function samples(element: AST.Element): string[] {
  switch (element.type) {
    case 'Quantifier': {
      const [one = ''] = samples(element.element).filter((text) => text !== '');
      const most = Math.min(element.max, Math.max(element.min, 3));
      return element.min === 0 ? ['', one, one.repeat(most)] : [one.repeat(element.min), one.repeat(most)];
    }
    case 'Group':
    case 'CapturingGroup':
      return element.alternatives.map(({ elements }) => elements.map((each) => samples(each)[0] ?? '').join(''));
    case 'Character':
      return [String.fromCodePoint(element.value)];
    case 'CharacterSet':
    case 'CharacterClass':
    case 'ExpressionCharacterClass': {
      const native = new RegExp(`^(?:${element.raw})$`, 'v'.includes(element.type) ? 'v' : 'u');
      return CANDIDATES.filter((each) => native.test(each)).slice(0, 4);
    }
    default:
      return [''];
  }
}
