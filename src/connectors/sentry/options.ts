import { z } from 'zod';
import { atLeastOne, hostName, httpsAddress, nameOrNumber, oneWord } from '../kit/options.ts';
import { asBase } from '../kit/rest.ts';
import { scopeBy } from '../kit/scope.ts';

export const PUBLIC_HOST = 'sentry.io';

/** A project's number, its slug, or a pattern over slugs. */
const PROJECT = /^[a-z0-9_*-]{1,100}$/;

const project = nameOrNumber(
  PROJECT,
  'must be one project, by its slug (front-end) or number, or a pattern (front-*, *)',
  (given) => given.toLowerCase(),
);

export const options = z.strictObject({
  host: hostName('sentry.example.com')
    .default(PUBLIC_HOST)
    .describe(
      'Host of the Sentry: sentry.io, de.sentry.io for organisations in the European Union, or one that you run.',
    ),
  apiUrl: httpsAddress
    .optional()
    .describe('Address of the API, where it is not `https://<host>/api/0`: a proxy, a test.'),
  organization: z
    .string()
    .toLowerCase()
    .regex(/^[a-z0-9_-]{1,100}$/, 'must be the slug of an organisation, as in its addresses')
    .describe('Slug of the organisation.'),
  token: oneWord(/^[\x21-\x7e]{1,1000}$/)
    .optional()
    .describe('Token of an internal integration with `event:read`, `project:read` and `org:read`.'),
  projects: atLeastOne(project, 'project').describe(
    'Projects by slug, by number, which survives renaming, or as patterns such as `*`.',
  ),
  exclude: z.array(project).default([]).describe('Projects to leave out, by slug, pattern or number.'),
});

export type Options = z.infer<typeof options>;

export function baseOf({ host, apiUrl }: Pick<Options, 'host' | 'apiUrl'>): string {
  return asBase(apiUrl ?? `https://${host}/api/0`);
}

export const scopeOf = scopeBy<Options>('projects');
