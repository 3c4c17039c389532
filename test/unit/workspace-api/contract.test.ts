import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { z } from 'zod';
import { taskOf, workspaceOf } from '../../../src/gateway/destination.ts';
import { createRouteOf } from '../../../src/workspace-api/capture-responses.ts';
import {
  fillPath,
  ID_PATTERN,
  openApiDocument,
  ROUTES,
  type Route,
  type RouteName,
} from '../../../src/workspace-api/contract.ts';
import { SPECIFIED_QUOTA, startWorkspaceService, type TestService } from '../../support/fakes/workspace-service.ts';
import { drawn } from '../../support/harness/depth.ts';

type PathItem = { parameters: { name: string }[] } & Record<string, { operationId: string }>;

const DOCUMENT = JSON.parse(JSON.stringify(openApiDocument())) as {
  paths: Record<string, PathItem>;
  components: { schemas: Record<string, object> };
};

let running: TestService;
beforeAll(async () => {
  running = await startWorkspaceService({ quota: { ...SPECIFIED_QUOTA, requests: 0, burst: 4 } });
});
afterAll(() => running.close());

function operations() {
  return Object.entries(DOCUMENT.paths).flatMap(([path, { parameters: _shared, ...methods }]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
}

it('is valid OpenAPI 3.1', async () => {
  const validator = new Validator();
  const result = await validator.validate(structuredClone(DOCUMENT) as never);
  expect(result.errors).toBeUndefined();
  expect([result.valid, validator.version]).toEqual([true, '3.1']);
});

it('is what config/openapi.json holds', () => {
  const checkedIn = readFileSync(join(import.meta.dirname, '../../../config/openapi.json'), 'utf8');
  expect(JSON.parse(checkedIn)).toEqual(DOCUMENT);
});

it('has every route of the contract at every address, and no other', () => {
  const expected = (Object.values(ROUTES) as Route[]).flatMap(({ method, path, alsoAt, alsoBy }) => [
    ...[path, ...(alsoAt === undefined ? [] : [alsoAt])].map((address) => `${method} ${address}`),
    ...(alsoBy === undefined ? [] : [`${alsoBy} ${path}`]),
  ]);
  expect(
    operations()
      .map(({ method, path }) => `${method} ${path}`)
      .toSorted(),
  ).toEqual(expected.toSorted());
});

type Part = z.core.JSONSchema.BaseSchema;

/** Fields that an answer must have, because it has no meaning without them. */
const REQUIRED: Readonly<Record<string, unknown>> = {
  ...{ taskId: 'a', workItemId: 'a', documentId: 'a', apiKeyId: 'a', webhookId: 'a' },
  ...{ agentId: 'a', harnessId: 'a', sessionId: 'a', claimId: 'a', activityId: 'a' },
  ...{ provider: 'a', repoId: 'a', identifier: 'a' },
  ...{ url: 'a', uploadUrl: 'a', assetUrl: 'a', headers: {}, secret: 'a', key: 'a' },
};

it.each((Object.entries(ROUTES) as [string, Route][]).filter(([, { response }]) => response))(
  'reads the answer of %s whatever its fields hold that identify nothing',
  (_name, { response }) => {
    const whole = z.toJSONSchema(response as z.ZodType, { unrepresentable: 'any' });
    const fieldsOf = (part: Part) => (whole.$defs?.[part.$ref?.split('/').at(-1) ?? ''] ?? part).properties ?? {};
    const { nextCursor: _, ...envelope } = fieldsOf(whole);
    const [[list, { items }], ...others] = Object.entries(envelope) as [[string, Part & { items?: Part }]];
    const isList = items !== undefined && others.length === 0;
    for (const value of [undefined, null, 5, 'text', true, {}, [5, null, {}]]) {
      const names = Object.keys(isList ? fieldsOf(items) : envelope);
      const element = Object.fromEntries(names.map((name) => [name, REQUIRED[name] ?? value]));
      const read = response?.safeParse(isList ? { [list]: [element] } : element);
      expect(read?.error?.issues ?? []).toEqual([]);
      if (isList) expect(read?.data).toMatchObject({ [list]: [{}] });
    }
  },
);

it('the running service serves exactly the methods that the document names', async () => {
  for (const [path, { parameters: _shared, ...methods }] of Object.entries(DOCUMENT.paths)) {
    const address = path.replace('{workspaceId}', 'current').replace(/\{\w+\}/g, 'x');
    const headers = { authorization: `Bearer ${running.oauthToken}` };
    const reply = await fetch(running.url + address, { method: 'OPTIONS', headers });
    expect([path, reply.status, reply.headers.get('allow')?.split(', ')]).toEqual([
      path,
      405,
      Object.keys(methods)
        .map((method) => method.toUpperCase())
        .toSorted(),
    ]);
  }
});

it('what the service answers is what the document promises', async () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: 'api', components: DOCUMENT.components });
  const validate = (name: string, value: unknown) => {
    const check = ajv.getSchema(`api#/components/schemas/${name}`)!;
    expect([check(value), check.errors]).toEqual([true, null]);
  };
  const call = async (method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${running.oauthToken}`, 'content-type': 'application/json' };
    const reply = await fetch(running.url + path, { method, headers, body: body && JSON.stringify(body) });
    return reply.json();
  };
  const task = (await call('POST', '/workspaces/current/bugs', { title: 'x' })) as { taskId: string };
  validate('Task', task);
  validate('WorkItem', await call('POST', `/tasks/${task.taskId}/work-items`, { url: 'https://example.com' }));
  validate('ApiKey', await call('POST', '/workspaces/current/api-keys', { description: 'x' }));
  validate('Error', await call('GET', '/nothing'));
  const pullRequest = { provider: 'github', repoId: 1, identifier: 2, title: 'x', headBranch: 'a', baseBranch: 'b' };
  validate('NewPullRequest', pullRequest);
  validate('PullRequest', await call('POST', '/workspaces/current/pull-requests', pullRequest));
});

describe('the route of a request', () => {
  const routeOf = createRouteOf();
  const id = fc.stringMatching(ID_PATTERN);

  test.each(Object.keys(ROUTES) as RouteName[])('%s is recognised at each of its addresses, with its ids', (name) => {
    const { method, ...route } = ROUTES[name];
    const paths = [route.path, ...('alsoAt' in route ? [route.alsoAt] : [])];
    fc.assert(
      fc.property(fc.array(id, { minLength: 4, maxLength: 4 }), (values) => {
        for (const path of paths) {
          const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string);
          const ids = Object.fromEntries(names.map((each, index) => [each, values[index] as string]));
          expect(routeOf(method, fillPath(path, ids))).toEqual({ route: name, ids });
        }
      }),
      { numRuns: drawn(20) },
    );
  });

  test.each([
    ['GET', '/workspaces/current'],
    ['GET', '/workspaces/current/tasks/a/b'],
    ['GET', ''],
  ])('%s %s is no route', (method, path) => {
    expect(routeOf(method, path)).toBeUndefined();
  });

  test('a route is recognised where this server has it', () => {
    const here = createRouteOf({ routes: { listTasks: { path: '/workspaces/{workspaceId}/issues' } } });
    const ids = { workspaceId: 'ws_1' };
    expect(here('GET', '/workspaces/ws_1/issues')).toEqual({ route: 'listTasks', ids });
    expect(here('GET', '/workspaces/ws_1/tasks')).toBeUndefined();
    expect(routeOf('GET', '/workspaces/ws_1/issues')).toBeUndefined();
  });

  test('the workspace and the task that a path names', () => {
    expect(workspaceOf('/workspaces/ws_1/tasks')).toBe('ws_1');
    expect(workspaceOf('/workspaces/ws_1')).toBe('ws_1');
    expect(workspaceOf('/tasks/tsk_1/work-items')).toBeUndefined();
    expect(taskOf('/tasks/tsk_1/work-items')).toBe('tsk_1');
    expect(taskOf('/workspaces/ws_1/tasks/tsk_1')).toBeUndefined();
  });
});
