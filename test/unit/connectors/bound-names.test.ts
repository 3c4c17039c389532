import { expect, it } from 'vitest';
import { azureBoards } from '../../../src/connectors/azure-boards/index.ts';
import { bitbucket } from '../../../src/connectors/bitbucket/index.ts';
import type { Connector } from '../../../src/connectors/connector.ts';
import { github } from '../../../src/connectors/github/index.ts';
import { gitlab } from '../../../src/connectors/gitlab/index.ts';
import { jira } from '../../../src/connectors/jira/index.ts';
import { linear } from '../../../src/connectors/linear/index.ts';
import type { Names } from '../../../src/model/names.ts';
import type { HttpRequest } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';

const { signal } = new AbortController();
const UUID = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const BOUND = '6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';

/** An answer with enough fields for the check of each vendor. */
const ANSWER = {
  ...{
    id: 70100,
    key: 'NEW',
    name: 'New',
    full_name: 'acme/new',
    path_with_namespace: 'acme/new',
    value: [],
    values: [],
  },
  ...{ cloudId: UUID, instanceId: UUID, authenticatedUser: { id: 'me' }, accountId: 'me', displayName: 'Me' },
  data: { viewer: { name: 'Me' }, organization: { id: UUID, urlKey: 'acme' }, webhooks: { nodes: [], pageInfo: {} } },
};

interface Vendor {
  readonly connector: Connector<never>;
  readonly options: object;
  readonly name: string;
  readonly id: string;
}

const atJira = { site: 'acme.atlassian.net', cloudId: UUID, email: 'a@example.com', token: 'x' };
const VENDORS: readonly (readonly [string, Vendor])[] = (
  [
    { connector: github, options: { repositories: ['acme/taken'], token: 'x' }, name: 'acme/taken', id: '70100' },
    { connector: gitlab, options: { projects: ['acme/taken'], token: 'x' }, name: 'acme/taken', id: '70100' },
    {
      connector: bitbucket,
      options: { repositories: ['acme/taken'], token: 'x' },
      name: 'acme/taken',
      id: `{${BOUND}}`,
    },
    { connector: jira, options: { ...atJira, projects: ['TAKEN'] }, name: 'TAKEN', id: '70100' },
    { connector: linear, options: { organizationId: UUID, teams: ['TAKEN'], apiKey: 'x' }, name: 'TAKEN', id: BOUND },
    {
      connector: azureBoards,
      options: { organization: 'acme', organizationId: UUID, projects: ['Taken'], token: 'x' },
      ...{ name: 'Taken', id: BOUND },
    },
  ] as unknown as readonly Vendor[]
).map((vendor) => [vendor.connector.id, vendor]);

/** Returns a connection with a name that is bound to this id, and its requests. */
function connect({ connector, options, name, id }: Vendor) {
  const requests: string[] = [];
  const http = {
    async request({ method, url, body }: HttpRequest) {
      requests.push(decodeURIComponent(`${method} ${url} ${String(body ?? '')}`));
      const answer = url.endsWith('/rest/webhooks/1.0/webhook') && method === 'GET' ? [] : ANSWER;
      return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(answer)) };
    },
    close: async () => {},
  };
  const bound = { id, name: 'acme/elsewhere' };
  const names: Names = {
    idOf: (entry) => (entry === name ? id : undefined),
    addressOf: (unit) => (unit === name ? (connector.unitOf?.(bound) ?? id) : unit),
    report: () => undefined,
  };
  const given = { ...(connector.options.parse(options) as object), names } as never;
  return {
    connection: connector.connect(given, { http, clock: createTravellingClock(), logger: silentLogger }),
    requests,
  };
}

/** Ignores failures, because only the requests before them matter here. */
async function ignoringFailure(work: Promise<unknown> | undefined): Promise<void> {
  await work?.catch(() => undefined);
}

it.each(VENDORS)('%s lists and registers webhooks by the bound id of a name', async (_, vendor) => {
  const { connection, requests } = connect(vendor);
  const url = 'https://sync.example.com/webhooks/acme/vendor';
  await ignoringFailure(connection.hooks?.states(url, signal));
  await ignoringFailure(connection.hooks?.install(url, 'a secret of some length', signal));
  expect(requests.filter((each) => each.includes(vendor.name))).toEqual([]);
  expect(requests.some((each) => each.includes(vendor.id))).toBe(true);
});

it.each(VENDORS)('%s checks a unit by the bound id of its name', async (_, vendor) => {
  const { connection, requests } = connect(vendor);
  await ignoringFailure(connection.check(signal));
  expect(requests.filter((each) => each.includes(vendor.name))).toEqual([]);
  expect(requests.some((each) => each.includes(vendor.id))).toBe(true);
});
