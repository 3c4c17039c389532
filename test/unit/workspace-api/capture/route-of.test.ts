import fc from 'fast-check';
import { expect, test } from 'vitest';
import { taskOf, workspaceOf } from '../../../../src/gateway/request-path.ts';
import { createRouteOf } from '../../../../src/workspace-api/capture/route-of.ts';
import { fillPath, ID_PATTERN, ROUTES, type RouteName } from '../../../../src/workspace-api/contract.ts';
import { drawn } from '../../../support/harness/depth.ts';

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
  ['PATCH', '/workspaces/current/tasks'],
  ['GET', '/nothing'],
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
