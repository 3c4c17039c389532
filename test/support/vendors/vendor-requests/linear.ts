import { z } from 'zod';
import { linearSchema } from '../linear-schema.ts';
import { graphqlBody } from './graphql.ts';
import { type Description, fields, type Operation } from './operation.ts';

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
  method: 'POST',
  path: '/oauth/token',
  headers: z.looseObject({ 'content-type': z.literal('application/x-www-form-urlencoded') }),
  body: fields({
    grant_type: z.literal('refresh_token'),
    client_id: z.string(),
    client_secret: z.string(),
    refresh_token: z.string(),
  }),
};

/** The schema is written down once, when it is first needed. */
function asked(): Operation {
  operation ??= { method: 'POST', path: '/graphql', body: graphqlBody(linearSchema()) };
  return operation;
}
