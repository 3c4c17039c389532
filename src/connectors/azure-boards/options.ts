import { z } from 'zod';
import { atLeastOne, excludes, httpsAddress, oneWord, statusName } from '../kit/options.ts';
import { UUID } from '../kit/payload.ts';
import { asBase } from '../kit/rest.ts';
import { scopeBy } from '../kit/scope.ts';

/** No character that Azure forbids in names of projects. */
const PROJECT = /^(?!\.)[^\p{C}\\/:?"<>|#$%&+@;,=[\]{}']{1,64}(?<![.\s])$/u;
const ORGANIZATION = /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,48}[A-Za-z0-9])?$/;

const project = z
  .string()
  .transform((given) => (UUID.test(given.toLowerCase()) ? given.toLowerCase() : given))
  .pipe(z.string().regex(PROJECT, 'must be one project, by its name or its id, or a pattern (Web*, *)'));

const word = oneWord(/^[\x21-\x7e]{1,8000}$/);

export const options = z
  .strictObject({
    organization: z
      .string()
      .regex(ORGANIZATION, 'must be the name of the organisation, as in https://dev.azure.com/<name>')
      .describe('Name of the Azure DevOps organisation, as in `https://dev.azure.com/<name>`.'),
    organizationId: z
      .string()
      .toLowerCase()
      .regex(UUID, 'must be the id of the organisation, as "worksync check" shows it')
      .describe('Id of that organisation, by which worksync identifies work items. `worksync check` shows it.'),
    token: word.optional().describe('Personal access token with the scope Work Items (Read). Excludes `accessToken`.'),
    accessToken: word.optional().describe('Access token of Microsoft Entra. Excludes `token`.'),
    apiUrl: httpsAddress
      .optional()
      .describe(
        'Address of the organisation, where it is not `https://dev.azure.com/<organization>`: a proxy, or a test.',
      ),
    projects: atLeastOne(project, 'project').describe(
      'Projects by name, by id, or as patterns such as `*`; an id survives renaming.',
    ),
    exclude: z.array(project).default([]).describe('Projects to leave out.'),
    completedStatus: statusName(128)
      .optional()
      .describe('State that closed work items get, if closing is switched on. Default: the first completed state.'),
  })
  .refine(...excludes('accessToken', ['token'], 'excludes token: give one of the two'));

export type Options = z.infer<typeof options>;

export function webBase({ organization }: Pick<Options, 'organization'>): string {
  return `https://dev.azure.com/${organization}`;
}

export function apiBase(given: Options): string {
  return given.apiUrl === undefined ? webBase(given) : asBase(given.apiUrl);
}

export const scopeOf = scopeBy<Options>('projects', true);
