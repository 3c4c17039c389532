import { z } from 'zod';
import { atLeastOne, excludes, httpsAddress, oauthOption, oneWord, statusName } from '../kit/options.ts';
import { UUID } from '../kit/payload.ts';
import { scopeBy } from '../kit/scope.ts';

/** A team's key or a pattern over keys. */
const KEY = /^[A-Z0-9*]{1,21}$/;

const team = z
  .string()
  .transform((given) => (UUID.test(given.toLowerCase()) ? given.toLowerCase() : given.toUpperCase()))
  .refine(
    (given) => UUID.test(given) || KEY.test(given),
    'must be one team, by its key (ENG) or its id, or a pattern (ENG*, *)',
  );

const word = oneWord(/^[\x21-\x7e]{1,4000}$/);

export const options = z
  .strictObject({
    organizationId: z
      .string()
      .toLowerCase()
      .regex(UUID, 'must be the id of the organisation, as "worksync check" shows it')
      .describe(
        'Id of the Linear organisation, by which worksync identifies issues. `worksync check` shows the one of the credential.',
      ),
    apiKey: word.optional().describe('Personal API key of a member, with the permission Read. Excludes `accessToken`.'),
    accessToken: word.optional().describe('OAuth 2.0 access token with the scope `read`. Excludes `apiKey`.'),
    oauth: oauthOption('https://api.linear.app/oauth/token').describe(
      'An OAuth 2.0 app whose access tokens worksync renews, in place of `apiKey` and `accessToken`.',
    ),
    apiUrl: httpsAddress
      .default('https://api.linear.app/graphql')
      .describe('Address of the API, where a proxy or a test stands in for it.'),
    teams: atLeastOne(team, 'team').describe(
      'Teams by key, by id, or as patterns such as `*`; an id survives a change of the key.',
    ),
    exclude: z.array(team).default([]).describe('Teams to leave out.'),
    completedStatus: statusName(255)
      .optional()
      .describe('Status that closed issues get, if closing is switched on. Default: the first completed status.'),
  })
  .refine(...excludes('accessToken', ['apiKey'], 'excludes apiKey: give one of the two'))
  .refine(...excludes('oauth', ['apiKey', 'accessToken'], 'excludes apiKey and accessToken: give only one of them'));

export type Options = z.infer<typeof options>;

export const scopeOf = scopeBy<Options>('teams', true);
