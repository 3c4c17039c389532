import { z } from 'zod';
import { atLeastOne, httpsAddress, oneWord } from '../kit/options.ts';
import { asBase } from '../kit/rest.ts';
import { scopeBy } from '../kit/scope.ts';

const project = z
  .string()
  .regex(/^[^\s\p{C}]{1,200}$/u, 'must be one word: the id of a project, its name, or a pattern (Web*, *)');

export const options = z.strictObject({
  system: z
    .string()
    .toLowerCase()
    .regex(/^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$/, 'must be a name of lower-case letters, digits, dots and hyphens')
    .describe('Name of the system that the ids belong to. worksync identifies items by it: do not change it.'),
  feedUrl: httpsAddress
    .optional()
    .describe('Address of a feed of the same items. Without one, worksync never sees what no webhook brings.'),
  token: oneWord(/^[\x21-\x7e]{1,4000}$/)
    .optional()
    .describe('Bearer token that worksync sends to the feed.'),
  projects: atLeastOne(project, 'project')
    .default(['**'])
    .describe('Projects by id, by name, or as patterns. Absent: all of them.'),
  exclude: z.array(project).default([]).describe('Projects to leave out, by id, by name, or as patterns.'),
});

export type Options = z.infer<typeof options>;

export function feedBase({ feedUrl }: Options): string | undefined {
  return feedUrl === undefined ? undefined : asBase(feedUrl);
}

export const scopeOf = scopeBy<Options>('projects', true);
