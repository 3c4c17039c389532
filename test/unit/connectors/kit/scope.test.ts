import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inScope, matches, namedIn, patternsOf, type Scope } from '../../../../src/connectors/kit/scope.ts';
import { drawn } from '../../../support/depth.ts';

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
    // Nothing but stars means more than itself.
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

  it('takes a number of steps that grows with both lengths, not faster', () => {
    // A backtracking engine would need longer than the universe has.
    expect(matches(`${'a*'.repeat(200)}b`, 'a'.repeat(400))).toBe(false);
  });
});

describe('inScope', () => {
  const scope: Scope = { include: ['acme/*', 'tools/cli', '42'], exclude: [], archived: false, forks: false };
  const candidate = { id: '7', name: 'acme/api' };

  it('takes names, patterns and ids', () => {
    expect(inScope(candidate, scope)).toBe(true);
    expect(inScope({ id: '8', name: 'Tools/CLI' }, scope)).toBe(true);
    expect(inScope({ id: '8', name: 'other/api' }, scope)).toBe(false);
  });

  it('follows what is named by its id, whatever it is called now', () => {
    expect(inScope({ id: '42', name: 'moved/away' }, scope)).toBe(true);
  });

  it('leaves archived ones and forks to the option, unless they are named', () => {
    for (const trait of [{ archived: true }, { fork: true }]) {
      expect(inScope({ ...candidate, ...trait }, scope)).toBe(false);
      expect(inScope({ ...candidate, ...trait, id: '42' }, scope)).toBe(true);
      expect(inScope({ ...trait, id: '8', name: 'tools/cli' }, scope)).toBe(true);
      expect(inScope({ ...candidate, ...trait }, { ...scope, archived: true, forks: true })).toBe(true);
    }
  });

  it('lets an exclusion win', () => {
    for (const exclude of ['acme/api', 'acme/a*', '7'])
      expect(inScope(candidate, { ...scope, exclude: [exclude] })).toBe(false);
    expect(inScope({ id: '42', name: 'tools/cli' }, { ...scope, exclude: ['tools/*'] })).toBe(false);
  });

  it('tells apart what must be listed and what can be asked for', () => {
    expect(patternsOf(scope)).toEqual(['acme/*']);
    expect(namedIn(scope)).toEqual(['tools/cli', '42']);
    expect(namedIn({ ...scope, exclude: ['tools/*', '42'] })).toEqual([]);
  });
});

describe('a name that is bound', () => {
  const bound = new Map([['acme/api', '1']]);
  const told: string[] = [];
  const names = {
    idOf: (entry: string) => bound.get(entry.toLowerCase()),
    addressOf: (unit: string) => bound.get(unit.toLowerCase()) ?? unit,
    report: ({ id, name }: { id: string; name: string }) => void told.push(`${id} ${name}`),
  };
  const scope = (include: readonly string[], exclude: readonly string[] = []): Scope => ({
    ...{ include, exclude, archived: false, forks: false, names },
  });

  it.each([
    ['1', 'acme/api', ['Acme/API'], true],
    ['1', 'acme/core', ['acme/api'], true],
    ['1', 'other/core', ['acme/api'], true],
    ['2', 'acme/api', ['acme/api'], false],
    // What was not bound yet is meant by its name.
    ['3', 'acme/web', ['acme/web'], true],
    // A pattern goes by present names.
    ['2', 'acme/api', ['acme/api', 'acme/*'], true],
    ['2', 'acme/api', ['2'], true],
  ])('%s %s in %j: %s', (id, name, include, expected) => {
    expect(inScope({ id, name }, scope(include))).toBe(expected);
  });

  it('is excluded by its present name, and the name book hears of each candidate', () => {
    told.length = 0;
    expect(inScope({ id: '1', name: 'acme/secret' }, scope(['acme/api'], ['acme/secret']))).toBe(false);
    expect(told).toEqual(['1 acme/secret']);
  });
});
