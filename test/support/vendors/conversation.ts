import { expect, it } from 'vitest';
import type { Connection, Connector, PollPage } from '../../../src/connectors/connector.ts';
import type { Item } from '../../../src/model/item.ts';
import { courseOf, type Turn } from './course.ts';

/** A connector with the options of a connection, and the origin of its vendor's API. */
export interface Party<Options = unknown> {
  readonly connector: Connector<Options>;
  readonly given: object;
  readonly origin: string;
}

type Act = (connection: Required<Connection>) => Promise<unknown>;

/** An act, the requests that follow with their answers, the expected result, and options beside those of the party. */
type Conversation = readonly [act: Act, course: readonly Turn[], expected: unknown, more?: object];

/**
 * A test for each conversation. Of an object that comes of it, what is expected must be in it; `exactly` says that nothing else
 * is. An error that is thrown comes of it too: see `failing`.
 */
export function conversations<Options>(party: Party<Options>, rows: Readonly<Record<string, Conversation>>): void {
  it.each(Object.entries(rows))('%s', async (_, [act, course, expected, more]) => {
    const { connection } = courseOf(party.connector, { ...party.given, ...more }, party.origin, course);
    const came: unknown = await act(connection).catch((error: unknown) => error);
    if (expected instanceof Exactly) expect(came).toEqual(expected.value);
    else if (Array.isArray(expected)) {
      expect(came).toHaveLength(expected.length);
      expect(came).toMatchObject(expected);
    } else if (isPlain(expected)) expect(came).toMatchObject(expected);
    else expect(came).toEqual(expected);
  });
}

class Exactly {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }
}

export const exactly = (value: unknown) => new Exactly(value);

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

export function failing(code: string, errorCode?: string, words = ''): unknown {
  return expect.objectContaining({ code, errorCode, message: expect.stringContaining(words) });
}

/** Items of a page or of a fetched object, if it holds any. */
export function itemsIn<Options>(
  { connector, given }: Party<Options>,
  came: PollPage | { readonly event: string; readonly body: Buffer },
  source: 'poll' | 'fetch' = 'poll',
): readonly Item[] {
  if ('outcome' in came && came.outcome !== 'page') throw new Error(came.outcome);
  const translation = connector.translate(
    { source, event: came.event, body: came.body },
    connector.options.parse(given),
  );
  return translation.outcome === 'items' ? translation.items : [];
}
