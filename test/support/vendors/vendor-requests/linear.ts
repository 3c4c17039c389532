import { z } from 'zod';
import { linearSchema } from '../linear-schema.ts';
import { graphqlBody } from './graphql.ts';
import type { Description, Operation } from './operation.ts';
import { refresh } from './trackers.ts';

let operation: Operation | undefined;

/** Linear's GraphQL API as its SDK declares it. */
export const linear: Description = {
  base: 'https://api.linear.app',
  find(method, path) {
    if (method !== 'POST') return undefined;
    if (path === '/oauth/token') return TOKEN;
    return path === '/graphql' ? asked() : undefined;
  },
};

/** linear.app/developers/oauth-2-0-authentication, "Refresh an access token" */
const TOKEN: Operation = {
  ...{ method: 'POST', path: '/oauth/token', body: refresh },
  headers: z.looseObject({ 'content-type': z.literal('application/x-www-form-urlencoded') }),
};

/** The schema is written down once, when it is first needed. */
function asked(): Operation {
  operation ??= { method: 'POST', path: '/graphql', body: graphqlBody(linearSchema()) };
  return operation;
}
