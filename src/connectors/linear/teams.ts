import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import { absent, UUID } from '../kit/fields.ts';
import { createListing } from '../kit/listing.ts';
import { inScope, namedIn, patternsOf } from '../kit/scope.ts';
import { type Api, pageOf, readAll } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import { TEAMS } from './queries.ts';
import * as schema from './schema.ts';

/** What all members of the organisation see is public; a private or restricted team is seen by some of them. */
const team = z.object({ id: schema.id, key: z.string(), name: z.string(), visibility: absent(z.string()) });

export type Team = z.infer<typeof team>;

const data = z.object({ teams: pageOf(team) });

/** A filter that means one team, by its id or its key. */
export function teamIs(unit: string): object {
  return UUID.test(unit) ? { id: { eq: unit } } : { key: { eq: unit } };
}

/** The team that a unit means. Throws `not_found` where the credential sees none. */
export async function readTeam(api: Api, unit: string, signal: AbortSignal): Promise<Team> {
  const variables = { filter: teamIs(unit) };
  const found = await api.ask({ document: TEAMS, variables, data, use: 'background', signal });
  const [first] = found.data.teams.nodes;
  if (first) return first;
  throw new SyncError('not_found', `there is no team ${unit} that this credential may see`);
}

async function allTeams(api: Api, signal: AbortSignal): Promise<readonly Team[]> {
  return await readAll(async (after) => {
    const variables = after === undefined ? {} : { after };
    return (await api.ask({ document: TEAMS, variables, data, use: 'poll', signal })).data.teams;
  });
}

/** The teams to walk: those that are named, and those that patterns take in. */
export function unitsOf(api: Api, options: Options, clock: Clock): (signal: AbortSignal) => Promise<readonly string[]> {
  const scope = scopeOf(options);
  const named = namedIn(scope);
  if (patternsOf(scope).length === 0) return async () => named;
  const listing = createListing(clock, (signal) => allTeams(api, signal));
  return async (signal) => {
    const taken = (await listing(signal)).filter(({ id, key }) => inScope({ id, name: key }, scope));
    const others = taken.filter(({ id, key }) => !named.includes(id) && !named.includes(key));
    return [...named, ...others.map(({ id }) => id)];
  };
}
