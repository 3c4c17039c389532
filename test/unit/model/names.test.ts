import { describe, expect, it } from 'vitest';
import { afterLookup, afterReport, type Binding, type NamedUnit } from '../../../src/model/names.ts';

const API: Binding = { entry: 'acme/api', id: '1', called: 'acme/api' };
const RENAMED: Binding = { ...API, called: 'acme/core' };
const REBOUND: Binding = { ...API, elsewhere: '2' };
const seen = (id: string, name: string): NamedUnit => ({ id, name });

describe('what a delivery tells of a name', () => {
  it.each<[string, Binding | undefined, NamedUnit, Binding | undefined]>([
    ['binds it', undefined, seen('1', 'Acme/API'), { ...API, called: 'Acme/API' }],
    ['says nothing of another', undefined, seen('1', 'acme/web'), undefined],
    ['shows a rename', API, seen('1', 'acme/core'), RENAMED],
    ['shows the rename back', RENAMED, seen('1', 'acme/api'), API],
    ['shows that it leads elsewhere', API, seen('2', 'acme/api'), REBOUND],
    ['shows that it leads elsewhere yet', REBOUND, seen('3', 'acme/api'), { ...API, elsewhere: '3' }],
    // A late delivery of before: only the vendor says that it is over.
    ['does not take that back', REBOUND, seen('1', 'acme/api'), REBOUND],
    ['says nothing of it by another thing', API, seen('2', 'acme/core'), API],
  ])('%s', (_, held, told, after) => {
    expect(afterReport('acme/api', held, told)).toEqual(after);
  });

  it('is the same object where nothing is new', () => {
    expect(afterReport('acme/api', REBOUND, seen('2', 'acme/api'))).toBe(REBOUND);
    expect(afterReport('acme/api', API, seen('1', 'acme/api'))).toBe(API);
  });
});

describe('what the vendor answers when it is asked', () => {
  it.each<[string, Binding | undefined, NamedUnit | undefined, Binding | undefined]>([
    ['binds it', undefined, seen('1', 'acme/api'), API],
    ['binds what is found under a name of before', undefined, seen('1', 'acme/core'), RENAMED],
    ['binds nothing where there is nothing', undefined, undefined, undefined],
    ['shows a rename', API, seen('1', 'acme/core'), RENAMED],
    ['shows that it leads elsewhere', API, seen('2', 'acme/api'), REBOUND],
    ['ends that where it leads back', REBOUND, seen('1', 'acme/api'), API],
    ['ends that where it leads nowhere', REBOUND, undefined, API],
  ])('%s', (_, held, found, after) => {
    expect(afterLookup('acme/api', held, found)).toEqual(after);
  });
});
