import { type GraphQLSchema, getVariableValues, Kind, parse, validate } from 'graphql';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Connection } from '../../../../src/connectors/connector.ts';
import { linear } from '../../../../src/connectors/linear/index.ts';
import * as queries from '../../../../src/connectors/linear/queries.ts';
import type { HttpAnswer, HttpRequest } from '../../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { linearSchema } from '../../../support/vendors/linear-schema.ts';

const { signal } = new AbortController();
const ID = '2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9';
const DOCUMENTS = Object.entries(queries);

let schema: GraphQLSchema;
beforeAll(() => {
  schema = linearSchema();
});

const problems = (document: string) => validate(schema, parse(document)).map(({ message }) => message);

describe('each document', () => {
  it.each(DOCUMENTS)('%s fits the schema that Linear publishes', (_, document) => {
    expect(problems(document)).toEqual([]);
  });

  it('would fail for a field, an argument, a filter or an input that is not there', () => {
    const wrong = [
      '{ issues { nodes { keyword } } }',
      '{ issues(updatedAfter: "x") { nodes { id } } }',
      '{ issues(filter: { updatedAt: { since: "x" } }) { nodes { id } } }',
      '{ issues(orderBy: changedAt) { nodes { id } } }',
      'mutation { commentCreate(input: { text: "x" }) { success } }',
      'query ($id: String!) { comments(filter: { id: { eq: $id } }) { nodes { id } } }',
      '{ issues { nodes } }',
    ];
    expect(wrong.filter((document) => problems(document).length === 0)).toEqual([]);
  });
});

describe('the variables that go with them', () => {
  const options = { organizationId: ID, apiKey: 'k', teams: ['ENG', ID] };
  const reference = { kind: 'work_item' as const, key: 'k', locator: { issueId: ID, teamId: ID, identifier: 'ENG-1' } };
  const pageInfo = { hasNextPage: false };
  const data = {
    issues: {
      nodes: [
        { id: ID, state: { type: 'started' }, team: { states: { nodes: [{ id: ID, name: 'Done', position: 1 }] } } },
      ],
      pageInfo,
    },
    teams: { nodes: [{ id: ID, key: 'ENG', name: 'Engineering' }], pageInfo },
    comments: { nodes: [{ id: ID, body: 'old' }] },
    webhooks: { nodes: [], pageInfo },
  };
  const startedAt = '2026-01-05T09:00:00.000Z';
  const calls: Readonly<Record<string, (connection: Connection) => Promise<unknown> | undefined>> = {
    'a first walk': (to) => to.poll({ unit: 'ENG', startedAt }, signal),
    'a walk': (to) => to.poll({ unit: ID, startedAt, watermark: startedAt, page: 'cursor' }, signal),
    'a history': (to) => to.history?.({ unit: 'ENG', since: startedAt, page: 'cursor' }, signal),
    'all of history': (to) => to.history?.({ unit: 'ENG' }, signal),
    'a sweep': (to) => to.sweep?.('ENG', 'cursor', signal),
    'a fetch': (to) => to.fetch(reference, signal),
    'a comment that stands': (to) => to.comment?.(reference, { marker: 'm', text: 'new' }, signal),
    closing: (to) => to.close?.(reference, signal),
    webhooks: (to) => to.hooks?.install('https://sync.example.com', 'S', signal),
  };

  it.each(Object.entries(calls))('fit in %s', async (_, call) => {
    const asked: { query: string; variables: Record<string, unknown> }[] = [];
    const http = {
      async request({ body }: HttpRequest): Promise<HttpAnswer> {
        const question = JSON.parse(String(body)) as (typeof asked)[number];
        asked.push(question);
        const reply = question.query.includes('mutation') ? { change: { success: true } } : data;
        return { status: 200, headers: {}, body: Buffer.from(JSON.stringify({ data: reply })) };
      },
      close: async () => {},
    };
    const deps = { http, clock: createTravellingClock(), logger: silentLogger };
    await call(linear.connect(linear.options.parse(options), deps));
    expect(asked.length).toBeGreaterThan(0);
    for (const { query, variables } of asked) {
      const operation = parse(query).definitions.find((each) => each.kind === Kind.OPERATION_DEFINITION);
      const given = getVariableValues(schema, operation?.variableDefinitions ?? [], variables);
      expect(given.errors ?? []).toEqual([]);
      const declared = operation?.variableDefinitions?.map(({ variable }) => variable.name.value);
      expect(declared).toEqual(expect.arrayContaining(Object.keys(variables)));
    }
  });
});
