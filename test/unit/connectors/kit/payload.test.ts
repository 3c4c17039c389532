import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { absent, instant, readAnswer, shapeOf, webAddress } from '../../../../src/connectors/kit/payload.ts';
import type { SyncError } from '../../../../src/model/errors/sync-error.ts';

describe('instant', () => {
  it.each([
    ['2026-03-02T08:00:00+02:00', '2026-03-02T06:00:00.000Z'],
    ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00Z'],
    ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59Z'],
  ])('reads %s as %s', (text, expected) => expect(instant.parse(text)).toBe(expected));

  it.each(['0000-01-01T00:00:00+23:59', '9999-12-31T23:59:59-23:59', '2026-02-30T00:00:00Z', '+12026-01-01T00:00:00Z'])(
    'rejects %s, which RFC 3339 cannot write in UTC',
    (text) => expect(instant.safeParse(text).success).toBe(false),
  );
});

describe('webAddress', () => {
  it.each(['https://example.com/a?b#c', 'http://[::1]:8080/x', 'https://[2001:db8::1]/'])('accepts %s', (text) =>
    expect(webAddress.parse(text)).toBe(text),
  );

  it.each([
    'https://[',
    'http://',
    'https://github.com@evil.example/',
    'https://a:b@example.com/',
    'ftp://a',
    'https://a b',
  ])('rejects %s', (text) => expect(webAddress.safeParse(text).success).toBe(false));
});

describe('readAnswer', () => {
  const answer = (text: string) => ({ status: 200, body: Buffer.from(text) });

  it('gives a hint if a web page answers in place of the API', () => {
    const hintOf = (text: string) => {
      try {
        return readAnswer(answer(text), 'GET /x');
      } catch (error) {
        return (error as SyncError).hint;
      }
    };
    for (const page of ['<!DOCTYPE html><p>', '\n <html lang="en">'])
      expect(hintOf(page)).toContain('A web page answered');
    expect(hintOf('{"a":')).not.toContain('A web page');
    expect(hintOf('{"a":1}')).toEqual({ a: 1 });
  });
});

describe('shapeOf', () => {
  it('names each field of a schema, and the parts of its objects and lists', () => {
    const person = z.object({ login: z.string() });
    const expected = z.object({
      id: z.int(),
      at: instant,
      author: absent(person.nullable()),
      people: absent(z.array(person)),
      labels: absent(z.array(z.union([z.string(), z.object({ name: z.string() })]))),
      head: z.object({ ref: absent(z.string()), repo: absent(z.object({ id: z.int() })) }),
    });
    expect(shapeOf(expected)).toEqual({
      id: true,
      at: true,
      author: { login: true },
      people: { login: true },
      labels: { name: true },
      head: { ref: true, repo: { id: true } },
    });
  });

  it('keeps a whole value of which the schema names no part', () => {
    const document = z.looseObject({ type: z.string() });
    const expected = z.object({ parent: absent(z.object({})), document, fields: z.record(z.string(), z.unknown()) });
    expect(shapeOf(expected)).toEqual({ parent: true, document: true, fields: true });
  });
});
