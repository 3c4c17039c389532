import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { absent, instant } from '../../../../src/connectors/kit/fields.ts';
import { shapeOf } from '../../../../src/connectors/kit/shape-of.ts';

describe('what a schema reads', () => {
  it('is each field, and of objects and lists their parts', () => {
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

  it('is the whole value where it names no part', () => {
    const document = z.looseObject({ type: z.string() });
    const expected = z.object({ parent: absent(z.object({})), document, fields: z.record(z.string(), z.unknown()) });
    expect(shapeOf(expected)).toEqual({ parent: true, document: true, fields: true });
  });
});
