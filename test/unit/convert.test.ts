import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import type { Connector } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { createConverter } from '../../src/convert/converter.ts';
import { packBody } from '../../src/store/bodies.ts';
import { PROFILES } from '../contracts/connectors/index.ts';

/** The thread reads what the main thread would read. */
const converter = createConverter();
afterAll(() => converter.close());

describe.each(PROFILES)('deliveries of $id', ({ id, options: given, fixtures }) => {
  const connector = connectors.find((each) => each.id === id) as Connector<unknown>;
  const options = connector.options.parse(given);
  const bodyOf = (file: string) =>
    readFileSync(new URL(`../../src/connectors/${id}/fixtures/${file}.json`, import.meta.url));

  it.each(fixtures.slice(0, 6))('$file', async ({ file, source, event }) => {
    const body = bodyOf(file);
    const task = { connector: id, options, source, event, body: packBody(body) };
    expect((await converter.translate(task)).translation).toEqual(
      connector.translate({ source, event, body }, options),
    );
  });
});

it('what names of the configuration are bound to counts, and what the body tells of them comes back', async () => {
  const github = connectors.find(({ id }) => id === 'github') as Connector<unknown>;
  const options = github.options.parse({ repositories: ['acme/app'] });
  const bytes = readFileSync(new URL('../../src/connectors/github/fixtures/pull_request.opened.json', import.meta.url));
  const { repository } = JSON.parse(bytes.toString()) as { repository: { id: number; full_name: string } };
  const body = packBody(bytes);
  const task = { connector: 'github', options, source: 'webhook' as const, event: 'pull_request', body };
  const { told } = await converter.translate({ ...task, names: [] });
  expect(told).toMatchObject([{ id: String(repository.id), name: repository.full_name }]);
});

it('a page is taken apart into pages of one element, each known by its content', async () => {
  const page = { total: 2, data: { nodes: [{ id: 1, body: 'a' }, { id: 2 }], labels: ['x', 'y', 'z'] } };
  const parts = await converter.parts({ body: packBody(Buffer.from(JSON.stringify(page))) });
  expect(parts.map(({ body }) => JSON.parse(Buffer.from(body).toString()) as unknown)).toEqual([
    { ...page, data: { ...page.data, nodes: [{ id: 1, body: 'a' }] } },
    { ...page, data: { ...page.data, nodes: [{ id: 2 }] } },
  ]);
  expect(new Set(parts.map(({ content }) => content)).size).toBe(2);
  expect(await converter.parts({ body: packBody(Buffer.from('"no page"')) })).toEqual([]);
});
