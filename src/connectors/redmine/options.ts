import { z } from 'zod';
import { atLeastOne, hostName, httpsAddress, nameOrNumber, oneWord, statusName } from '../kit/options.ts';
import { asBase } from '../kit/rest.ts';
import { scopeBy } from '../kit/scope.ts';

/** A project's number, its identifier, or a pattern over identifiers. */
const PROJECT = /^(?:[1-9]\d{0,15}|[a-z0-9_*-]{1,100})$/;

const project = nameOrNumber(
  PROJECT,
  'must be one project, by its identifier (website) or number, or a pattern (web-*, *)',
  (given) => given.toLowerCase(),
);

const status = statusName(100);

export const options = z.strictObject({
  url: httpsAddress.describe(
    'Address of the Redmine, with the path it lies below, for example `https://redmine.example.com`.',
  ),
  host: hostName()
    .optional()
    .describe('Name by which worksync identifies its issues. Default: the host of `url`. Do not change it.'),
  apiKey: oneWord(/^[\x21-\x7e]{1,200}$/)
    .optional()
    .describe('API access key of a user; see "My account" there. Without one worksync reads only what is public.'),
  projects: atLeastOne(project, 'project').describe(
    'Projects by identifier or number, or as patterns such as `*`. Subprojects are projects of their own: name them too.',
  ),
  exclude: z.array(project).default([]).describe('Projects to leave out.'),
  private: z
    .boolean()
    .default(false)
    .describe('Whether to read private issues too. Everybody in the workspace can then read them.'),
  inProgress: z
    .array(status)
    .default(['In Progress'])
    .describe(
      'Statuses, by name, that mean in progress. Others are open, or completed where Redmine calls them closed.',
    ),
  dropped: z
    .array(status)
    .default(['Rejected'])
    .describe('Closed statuses, by name, of issues that were dropped. Other closed issues are completed.'),
  completedStatus: status
    .optional()
    .describe(
      'Status that closed issues get, if closing is switched on. Default: the first closed status that is allowed.',
    ),
  formatting: z
    .enum(['textile', 'markdown'])
    .default('textile')
    .describe('Text formatting of the Redmine, as its settings say.'),
});

export type Options = z.infer<typeof options>;

export function baseOf({ url }: Pick<Options, 'url'>): string {
  return asBase(url);
}

export function hostOf({ url, host }: Pick<Options, 'url' | 'host'>): string {
  return host ?? new URL(url).hostname;
}

export const scopeOf = scopeBy<Options>('projects');
