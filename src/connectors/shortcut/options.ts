import { z } from 'zod';
import { atLeastOne, httpsAddress, oneWord, statusName } from '../kit/options.ts';
import { asBase } from '../kit/rest.ts';
import { scopeBy } from '../kit/scope.ts';

export const PUBLIC_HOST = 'app.shortcut.com';

/** A team's id, its mention name, or a pattern over mention names. */
const team = z
  .string()
  .toLowerCase()
  .regex(/^[a-z0-9._*-]{1,100}$/, 'must be one team, by its mention name (web) or id, or a pattern (web-*, *)');

export const options = z.strictObject({
  apiUrl: httpsAddress
    .default('https://api.app.shortcut.com/api/v3')
    .describe('Address of the API, if it is not the public one: a proxy, a test.'),
  token: oneWord(/^[\x21-\x7e]{1,1000}$/).describe('API token of a member of the workspace.'),
  teams: atLeastOne(team, 'team').describe(
    'Teams by mention name, by id, which survives renaming, or as patterns such as `*`. Stories without a team are not read.',
  ),
  exclude: z.array(team).default([]).describe('Teams to leave out, by mention name, pattern or id.'),
  completedStatus: statusName(200)
    .optional()
    .describe('Name of the state that closed stories get. Default: the first state of type done in their workflow.'),
});

export type Options = z.infer<typeof options>;

export const baseOf = ({ apiUrl }: Options): string => asBase(apiUrl);

export const scopeOf = scopeBy<Options>('teams');
