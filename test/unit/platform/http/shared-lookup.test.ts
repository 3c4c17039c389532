import type { LookupFunction } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createSharedLookup } from '../../../../src/platform/http/shared-lookup.ts';

type Callback = Parameters<LookupFunction>[2];

/** A system that answers when it is told to. */
function slowSystem() {
  const asked: { readonly host: string; readonly answer: Callback }[] = [];
  const lookup = createSharedLookup((host, _options, answer) => void asked.push({ host, answer }));
  return { asked, lookup };
}

describe('a name that many connections wait for', () => {
  it('is asked for once, and all hear the answer', () => {
    const { asked, lookup } = slowSystem();
    const heard: unknown[] = [];
    for (let each = 0; each < 1_000; each++)
      lookup('api.example', { all: true }, (error, addresses) => heard.push([error, addresses]));
    expect(asked).toHaveLength(1);
    expect(heard).toEqual([]);
    const addresses = [{ address: '192.0.2.1', family: 4 }];
    asked[0]?.answer(null, addresses);
    expect(heard).toEqual(Array.from({ length: 1_000 }, () => [null, addresses]));
  });

  it('is asked for anew after that, also where there was none', () => {
    const { asked, lookup } = slowSystem();
    const heard: (string | undefined)[] = [];
    const ask = () => lookup('api.example', {}, (error) => heard.push(error?.code));
    ask();
    asked[0]?.answer(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), '');
    ask();
    asked[1]?.answer(null, '192.0.2.1', 4);
    expect(heard).toEqual(['ENOTFOUND', undefined]);
  });

  it('keeps no other name waiting, and is not the same where addresses of another kind are wanted', () => {
    const { asked, lookup } = slowSystem();
    lookup('api.example', { family: 4 }, () => undefined);
    lookup('api.example', { family: 6 }, () => undefined);
    lookup('other.example', { family: 4 }, () => undefined);
    expect(asked.map(({ host }) => host)).toEqual(['api.example', 'api.example', 'other.example']);
  });
});
