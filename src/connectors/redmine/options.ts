import { z } from 'zod';
import { asBase } from '../kit/addresses.ts';
import { atLeastOne, hostName, httpsAddress, oneWord, statusName } from '../kit/options.ts';
import type { Scope, WithNames } from '../kit/scope.ts';

/** A project's number, its identifier, or a pattern over identifiers. */
const PROJECT = /^(?:[1-9]\d{0,15}|[a-z0-9_*-]{1,100})$/;

const project = z
  .union([z.string(), z.int()])
  .transform((given) => String(given).toLowerCase())
  .pipe(
    z.string().regex(PROJECT, 'must be one project, by its identifier (website) or number, or a pattern (web-*, *)'),
  );

const status = statusName(100);

export const options = z.strictObject({
  url: httpsAddress.describe(
    'Address of the Redmine, with the path it lies below, for example `https://redmine.example.com`.',
  ),
  host: hostName()
    .optional()
    .describe('Name that its issues are known by, where it is not the host of `url`: it must not change.'),
  apiKey: oneWord(/^[\x21-\x7e]{1,200}$/)
    .optional()
    .describe('API access key of a user, which stands at "My account". Without one only what anybody may see is read.'),
  projects: atLeastOne(project, 'project').describe(
    'Projects by identifier or number, or as patterns such as `*`. Subprojects are projects of their own: name them too.',
  ),
  exclude: z.array(project).default([]).describe('Projects that patterns are not to take in.'),
  private: z
    .boolean()
    .default(false)
    .describe('Whether private issues are read too: what is private there would be read by everybody here.'),
  inProgress: z
    .array(status)
    .default(['In Progress'])
    .describe('Statuses, by name, that mean in progress. Others are open, or done where Redmine calls them closed.'),
  doneStatus: status
    .optional()
    .describe('Status to close issues into, where closing is switched on. Otherwise the first closed one allowed.'),
  formatting: z
    .enum(['textile', 'markdown'])
    .default('textile')
    .describe('How texts are written there: "Text formatting" in its settings.'),
});

export type Options = z.infer<typeof options>;

/** Base of the API and of links, without a slash at its end. */
export function baseOf({ url }: Pick<Options, 'url'>): string {
  return asBase(url);
}

export function hostOf({ url, host }: Pick<Options, 'url' | 'host'>): string {
  return host ?? new URL(url).hostname;
}

export function scopeOf({ projects, exclude, names }: Options & WithNames): Scope {
  return { include: projects, exclude, archived: false, forks: false, names };
}
