import { describe, expect, it } from 'vitest';
import { afterLookup, afterReport, type Binding, type NamedUnit } from '../../../src/model/names.ts';

const API: Binding = { entry: 'acme/api', id: '1', called: 'acme/api' };
const RENAMED: Binding = { ...API, called: 'acme/core' };
const REBOUND: Binding = { ...API, elsewhere: '2' };
const unit = (id: string, name: string): NamedUnit => ({ id, name });

describe('a delivery', () => {
  it.each<[string, Binding | undefined, NamedUnit, Binding | undefined]>([
    ['binds a name', undefined, unit('1', 'Acme/API'), { ...API, called: 'Acme/API' }],
    ['with another name binds nothing', undefined, unit('1', 'acme/web'), undefined],
    ['shows a rename', API, unit('1', 'acme/core'), RENAMED],
    ['shows the rename back', RENAMED, unit('1', 'acme/api'), API],
    ['shows that another thing has the name', API, unit('2', 'acme/api'), REBOUND],
    ['shows that a third thing has the name', REBOUND, unit('3', 'acme/api'), { ...API, elsewhere: '3' }],
    // The delivery may be late: only the vendor's answer ends this.
    ['does not end a rebound name', REBOUND, unit('1', 'acme/api'), REBOUND],
    ['about another thing changes nothing', API, unit('2', 'acme/core'), API],
  ])('%s', (_, binding, reported, after) => {
    expect(afterReport('acme/api', binding, reported)).toEqual(after);
  });

  it('returns the same object if nothing is new', () => {
    expect(afterReport('acme/api', REBOUND, unit('2', 'acme/api'))).toBe(REBOUND);
    expect(afterReport('acme/api', API, unit('1', 'acme/api'))).toBe(API);
  });
});

describe('an answer to a lookup', () => {
  it.each<[string, Binding | undefined, NamedUnit | undefined, Binding | undefined]>([
    ['binds a name', undefined, unit('1', 'acme/api'), API],
    ['binds a thing that is found by an older name', undefined, unit('1', 'acme/core'), RENAMED],
    ['without a thing binds nothing', undefined, undefined, undefined],
    ['shows a rename', API, unit('1', 'acme/core'), RENAMED],
    ['shows that another thing has the name', API, unit('2', 'acme/api'), REBOUND],
    ['ends a rebound name when the bound thing has it again', REBOUND, unit('1', 'acme/api'), API],
    ['ends a rebound name when no thing has it', REBOUND, undefined, API],
  ])('%s', (_, binding, found, after) => {
    expect(afterLookup('acme/api', binding, found)).toEqual(after);
  });
});
