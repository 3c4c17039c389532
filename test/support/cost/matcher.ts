import { type AST, RegExpParser } from '@eslint-community/regexpp';

/** How far a search came: groups as `RegExp.exec` gives them, and where the match stands. */
export interface Found {
  readonly groups: (string | undefined)[];
  readonly names: Readonly<Record<string, number>>;
  readonly start: number;
  readonly end: number;
}

/** Goes on with what stands behind; false where that fails, and another way is tried. */
type Go = (at: number) => boolean;
type Match = (at: number, go: Go) => boolean;

export interface Matcher {
  /** Taken so far: looks at a character, attempts at a start, alternatives taken up again. */
  readonly steps: number;
  /** Tries each start from `from` on, or that one alone. */
  find(text: string, from: number, isSticky: boolean): Found | undefined;
}

/**
 * A backtracking matcher as the standard describes it (ECMA-262, Pattern Semantics), which counts its steps. An engine may
 * be cleverer, never slower by more than a factor. It knows the syntax that this project uses and throws for the rest.
 */
export function createMatcher({ source, flags }: Pick<RegExp, 'source' | 'flags'>): Matcher {
  const pattern = new RegExpParser({ ecmaVersion: 2025 }).parsePattern(source, 0, source.length, {
    unicode: flags.includes('u'),
    unicodeSets: flags.includes('v'),
  });
  const context = new Context(flags);
  const match = context.disjunction(pattern.alternatives, false);
  return {
    get steps() {
      return context.steps;
    },
    find(text, from, isSticky) {
      for (let start = from; start <= text.length; start++) {
        context.steps++;
        const end = context.run(match, text, start);
        if (end !== undefined) return context.found(start, end);
        if (isSticky) return undefined;
      }
      return undefined;
    },
  };
}

class Context {
  readonly #flags: string;
  steps = 0;
  readonly #isUnicode: boolean;
  #text = '';
  #captures: (readonly [number, number] | undefined)[] = [];
  readonly #names: Record<string, number> = {};
  #groups = 0;
  readonly #numbers = new Map<AST.CapturingGroup, number>();

  constructor(flags: string) {
    this.#flags = flags;
    this.#isUnicode = /[uv]/.test(flags);
  }

  /** Where a match from this start ends. */
  run(match: Match, text: string, start: number): number | undefined {
    this.#text = text;
    this.#captures = [];
    let end: number | undefined;
    match(start, (at) => {
      end = at;
      return true;
    });
    return end;
  }

  found(start: number, end: number): Found {
    const groups: (string | undefined)[] = [this.#text.slice(start, end)];
    for (let group = 1; group <= this.#groups; group++) {
      const capture = this.#captures[group];
      groups.push(capture && this.#text.slice(...capture));
    }
    return { groups, names: this.#names, start, end };
  }

  disjunction(alternatives: readonly AST.Alternative[], isBackward: boolean): Match {
    const matches = alternatives.map(({ elements }) => this.#sequence(elements, isBackward));
    if (matches.length === 1) return matches[0] as Match;
    return (at, go) =>
      matches.some((match) => {
        this.steps++;
        return match(at, go);
      });
  }

  #sequence(elements: readonly AST.Element[], isBackward: boolean): Match {
    const matches = elements.map((element) => this.#element(element, isBackward));
    if (isBackward) matches.reverse();
    return matches.reduceRight<Match>(
      (rest, match) => (at, go) => match(at, (next) => rest(next, go)),
      (at, go) => go(at),
    );
  }

  #element(element: AST.Element, isBackward: boolean): Match {
    switch (element.type) {
      case 'Assertion':
        return this.#assertion(element);
      case 'Quantifier':
        return this.#quantifier(element, isBackward);
      case 'CapturingGroup':
        return this.#capturing(element, isBackward);
      case 'Group':
        if (element.modifiers) throw new Error('modifiers are not known here');
        return this.disjunction(element.alternatives, isBackward);
      case 'Character':
      case 'CharacterSet':
      case 'CharacterClass':
      case 'ExpressionCharacterClass': {
        const step = this.#character(element, isBackward);
        return (at, go) => {
          const next = step(at);
          return next !== undefined && go(next);
        };
      }
      default:
        throw new Error(`${element.type} is not known here`);
    }
  }

  /** Where the character at this place ends, going the given way; undefined where it is another. */
  #character(element: AST.Element, isBackward: boolean): (at: number) => number | undefined {
    const native = new RegExp(`^(?:${element.raw})$`, this.#flags.replace(/[gyd]/g, ''));
    const known = new Map<number, boolean>();
    return (at) => {
      this.steps++;
      const character = this.#at(at, isBackward);
      if (character < 0) return undefined;
      let accepts = known.get(character);
      if (accepts === undefined) known.set(character, (accepts = native.test(String.fromCodePoint(character))));
      if (!accepts) return undefined;
      const length = character > 0xffff ? 2 : 1;
      return isBackward ? at - length : at + length;
    };
  }

  /** Below zero where the text ends. */
  #at(at: number, isBackward: boolean): number {
    const text = this.#text;
    if (!isBackward)
      return at >= text.length ? -1 : this.#isUnicode ? (text.codePointAt(at) as number) : text.charCodeAt(at);
    if (at <= 0) return -1;
    const pair = this.#isUnicode && at >= 2 ? (text.codePointAt(at - 2) as number) : 0;
    return pair > 0xffff ? pair : text.charCodeAt(at - 1);
  }

  #capturing(element: AST.CapturingGroup, isBackward: boolean): Match {
    const number = ++this.#groups;
    this.#numbers.set(element, number);
    if (element.name) this.#names[element.name] = number;
    const match = this.disjunction(element.alternatives, isBackward);
    return (at, go) =>
      match(at, (next) => {
        const before = this.#captures[number];
        this.#captures[number] = isBackward ? [next, at] : [at, next];
        if (go(next)) return true;
        this.#captures[number] = before;
        return false;
      });
  }

  #assertion(element: AST.Assertion): Match {
    switch (element.kind) {
      case 'start':
        return (at, go) => (at === 0 || (this.#flags.includes('m') && isLineEnd(this.#text[at - 1]))) && go(at);
      case 'end':
        return (at, go) =>
          (at === this.#text.length || (this.#flags.includes('m') && isLineEnd(this.#text[at]))) && go(at);
      case 'word': {
        const isWord = (at: number) => /\w/.test(this.#text[at] ?? '');
        return (at, go) => {
          this.steps++;
          return (isWord(at - 1) !== isWord(at)) !== element.negate && go(at);
        };
      }
      default: {
        const match = this.disjunction(element.alternatives, element.kind === 'lookbehind');
        return (at, go) => {
          const before = [...this.#captures];
          const holds = match(at, () => true);
          if (holds === element.negate) {
            this.#captures = before;
            return false;
          }
          if (go(at)) return true;
          this.#captures = before;
          return false;
        };
      }
    }
  }

  #quantifier({ element, min, max, greedy }: AST.Quantifier, isBackward: boolean): Match {
    if (isCharacter(element)) return this.#characters(element, { min, max, greedy }, isBackward);
    const first = this.#groups + 1;
    const match = this.#element(element, isBackward);
    const last = this.#groups;
    const repeat = (at: number, done: number, go: Go): boolean => {
      this.steps++;
      const once = () => {
        if (done >= max) return false;
        const before = this.#captures.slice(first, last + 1);
        for (let group = first; group <= last; group++) this.#captures[group] = undefined;
        // An empty repetition beyond the needed ones ends the loop.
        if (match(at, (next) => (done >= min && next === at ? false : repeat(next, done + 1, go)))) return true;
        for (let group = first; group <= last; group++) this.#captures[group] = before[group - first];
        return false;
      };
      if (done < min) return once();
      return greedy ? once() || go(at) : go(at) || once();
    };
    return (at, go) => repeat(at, 0, go);
  }

  /** A loop of one character takes no stack, however long it is. */
  #characters(
    element: AST.Element,
    { min, max, greedy }: Pick<AST.Quantifier, 'min' | 'max' | 'greedy'>,
    isBackward: boolean,
  ): Match {
    const step = this.#character(element, isBackward);
    return (at, go) => {
      const ends = [at];
      const takes = (): boolean => {
        const next = ends.length <= max ? step(ends.at(-1) as number) : undefined;
        if (next === undefined) return false;
        ends.push(next);
        return true;
      };
      while (ends.length <= min) if (!takes()) return false;
      if (!greedy) {
        do {
          this.steps++;
          if (go(ends.at(-1) as number)) return true;
        } while (takes());
        return false;
      }
      while (takes());
      for (let count = ends.length - 1; count >= min; count--) {
        this.steps++;
        if (go(ends[count] as number)) return true;
      }
      return false;
    };
  }
}

function isCharacter({ type }: AST.Element): boolean {
  return type === 'Character' || type === 'CharacterSet' || type === 'CharacterClass';
}

function isLineEnd(character: string | undefined): boolean {
  return character !== undefined && /[\n\r\u2028\u2029]/.test(character);
}
