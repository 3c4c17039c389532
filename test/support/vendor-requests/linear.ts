import { linearSchema } from '../linear-schema.ts';
import { graphqlBody } from './graphql.ts';
import type { Description, Operation } from './operation.ts';

let operation: Operation | undefined;

/** Linear's GraphQL API as its SDK declares it. */
export const linear: Description = {
  base: 'https://api.linear.app',
  find: (method, path) => (method === 'POST' && path === '/graphql' ? asked() : undefined),
};

/** The schema is written down once, when it is first needed. */
function asked(): Operation {
  operation ??= { method: 'POST', path: '/graphql', body: graphqlBody(linearSchema()) };
  return operation;
}
