import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inScope, matches, namedIn, patternsOf, type Scope } from '../../../../src/connectors/kit/scope.ts';
import { drawn } from '../../../support/harness/depth.ts';

describe('matches', () => {
  it.each([
    ['acme/api', 'acme/api', true],
    ['Acme/API', 'acme/api', true],
    ['acme/api', 'acme/api-2', false],
    ['acme/*', 'acme/api', true],
    ['acme/*', 'acme/', true],
    ['acme/*', 'acme/group/api', false],
    ['acme/*', 'acme-evil/api', false],
    ['acme/**', 'acme/group/api', true],
    ['acme/**/api', 'acme/a/b/api', true],
    ['acme/api-*', 'acme/api-web', true],
    ['acme/api-*', 'acme/api', false],
    ['acme/*-api-*', 'acme/my-api-api-2', true],
    ['*/api', 'acme/api', true],
    ['*', 'acme/api', false],
    ['**', 'acme/api', true],
    // Only stars are special characters.
    ['acme/a.i', 'acme/api', false],
    ['acme/[a-z]pi', 'acme/api', false],
    ['acme/(a|b)', 'acme/a', false],
    ['', '', true],
    ['', 'a', false],
  ])('%j against %j is %s', (pattern, name, expected) => {
    expect(matches(pattern, name)).toBe(expected);
  });

  it('agrees with an equivalent regular expression', () => {
    const text = (alphabet: string) => fc.stringMatching(new RegExp(`^[${alphabet}]{0,12}$`));
    fc.assert(
      fc.property(text('ab/*'), text('ab/'), (pattern, name) => {
        const source = pattern.replace(/\*\*|\*/g, (stars) => (stars === '**' ? '.*' : '[^/]*'));
        expect(matches(pattern, name)).toBe(new RegExp(`^${source}$`).test(name));
      }),
      { numRuns: drawn(2_000) },
    );
  });

  it('takes time proportional to both lengths', () => {
    // A backtracking engine would not finish.
    expect(matches(`${'a*'.repeat(200)}b`, 'a'.repeat(400))).toBe(false);
  });
});

describe('inScope', () => {
  const scope: Scope = { include: ['acme/*', 'tools/cli', '42'], exclude: [], archived: false, forks: false };
  const candidate = { id: '7', name: 'acme/api' };

  it('includes names, patterns and ids', () => {
    expect(inScope(candidate, scope)).toBe(true);
    expect(inScope({ id: '8', name: 'Tools/CLI' }, scope)).toBe(true);
    expect(inScope({ id: '8', name: 'other/api' }, scope)).toBe(false);
  });

  it('includes a configured id under any name', () => {
    expect(inScope({ id: '42', name: 'moved/away' }, scope)).toBe(true);
  });

  it('includes archived repositories and forks only if an option or a name does', () => {
    for (const trait of [{ archived: true }, { fork: true }]) {
      expect(inScope({ ...candidate, ...trait }, scope)).toBe(false);
      expect(inScope({ ...candidate, ...trait, id: '42' }, scope)).toBe(true);
      expect(inScope({ ...trait, id: '8', name: 'tools/cli' }, scope)).toBe(true);
      expect(inScope({ ...candidate, ...trait }, { ...scope, archived: true, forks: true })).toBe(true);
    }
  });

  it('excludes what `exclude` matches, even if it is named', () => {
    for (const exclude of ['acme/api', 'acme/a*', '7'])
      expect(inScope(candidate, { ...scope, exclude: [exclude] })).toBe(false);
    expect(inScope({ id: '42', name: 'tools/cli' }, { ...scope, exclude: ['tools/*'] })).toBe(false);
  });

  it('separates patterns from names', () => {
    expect(patternsOf(scope)).toEqual(['acme/*']);
    expect(namedIn(scope)).toEqual(['tools/cli', '42']);
    expect(namedIn({ ...scope, exclude: ['tools/*', '42'] })).toEqual([]);
  });
});

describe('a name that is bound to an id', () => {
  const bound = new Map([['acme/api', '1']]);
  const reported: string[] = [];
  const names = {
    idOf: (entry: string) => bound.get(entry.toLowerCase()),
    addressOf: (unit: string) => bound.get(unit.toLowerCase()) ?? unit,
    report: ({ id, name }: { id: string; name: string }) => void reported.push(`${id} ${name}`),
  };
  const scope = (include: readonly string[], exclude: readonly string[] = []): Scope => ({
    include,
    exclude,
    archived: false,
    forks: false,
    names,
  });

  it.each([
    ['1', 'acme/api', ['Acme/API'], true],
    ['1', 'acme/core', ['acme/api'], true],
    ['1', 'other/core', ['acme/api'], true],
    ['2', 'acme/api', ['acme/api'], false],
    // An unbound entry matches by name.
    ['3', 'acme/web', ['acme/web'], true],
    // A pattern matches current names.
    ['2', 'acme/api', ['acme/api', 'acme/*'], true],
    ['2', 'acme/api', ['2'], true],
  ])('%s %s in %j: %s', (id, name, include, expected) => {
    expect(inScope({ id, name }, scope(include))).toBe(expected);
  });

  it('is excluded by its current name, and each candidate is reported to the name bindings', () => {
    reported.length = 0;
    expect(inScope({ id: '1', name: 'acme/secret' }, scope(['acme/api'], ['acme/secret']))).toBe(false);
    expect(reported).toEqual(['1 acme/secret']);
  });
});
