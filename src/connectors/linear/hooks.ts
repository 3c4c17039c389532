import { z } from 'zod';
import type { HookState, Hooks } from '../connector.ts';
import { memoize } from '../kit/cached-reads.ts';
import { hooksOf } from '../kit/hooks.ts';
import { type Api, pageOf, readAll } from './api.ts';
import { CREATE_WEBHOOK, UPDATE_WEBHOOK, WEBHOOKS } from './queries.ts';
import * as schema from './schema.ts';

const TYPES = ['Comment', 'Issue'];

const hook = z.object({
  id: schema.id,
  url: z.string().nullish(),
  enabled: z.boolean(),
  resourceTypes: z.array(z.string()),
  allPublicTeams: z.boolean(),
  team: z.object({ id: z.string() }).nullish(),
});

type Team = schema.Team;

type Registered = z.infer<typeof hook>;

const data = z.object({ webhooks: pageOf(hook) });

/** A webhook for each team; one for all public teams that sends to this address covers each of those, and no other. */
export function hooksOfTeams(api: Api, followed: (signal: AbortSignal) => Promise<readonly Team[]>): Hooks {
  const told = new WeakSet<Registered>();
  return hooksOf<Team, Registered>({
    placesOf: followed,
    subjectOf: ({ key }) => key,
    finder(url, signal) {
      const all = memoize(() =>
        readAll(async (after) => {
          const question = { document: WEBHOOKS, variables: { after }, data, use: 'background', signal } as const;
          return (await api.ask(question)).data.webhooks;
        }),
      );
      return async (team) => {
        const standing = (await all()).filter((each) => each.url === url);
        const own = standing.find((each) => each.team?.id === team.id);
        return own ?? (isPublic(team) ? standing.find(({ allPublicTeams }) => allPublicTeams) : undefined);
      };
    },
    hidden: ['forbidden', 'unauthorized'],
    unknown: {
      state: 'unknown',
      message: 'only an administrator of Linear may read webhooks',
      hint: 'Look at Settings, API.',
    },
    stateOf,
    isRight: ({ enabled, resourceTypes }) => enabled && TYPES.every((type) => resourceTypes.includes(type)),
    async save(team, found, { url, secret }, signal) {
      const input = { enabled: true, resourceTypes: TYPES, secret };
      const created = { ...input, label: 'worksync', url, teamId: team.id };
      if (!found) await api.change(CREATE_WEBHOOK, { input: created }, signal);
      // Sends the secret each time: not every credential can see whether it is the same.
      else if (!told.has(found)) await api.change(UPDATE_WEBHOOK, { id: found.id, input }, signal);
      if (found) told.add(found);
      return ACTIVE;
    },
  });
}

const ACTIVE = { state: 'active', message: 'the webhook is registered' } as const;

function isPublic({ visibility = 'public' }: Team): boolean {
  return visibility === 'public';
}

function stateOf(found: Registered | undefined, team: Team): Omit<HookState, 'subject'> {
  if (!found)
    return {
      state: 'absent',
      message: isPublic(team)
        ? 'no webhook sends to this address'
        : 'no webhook of its own sends to this address, and webhooks for all public teams leave out a private team',
      hint: 'Run "worksync hooks install" with a key of an administrator, or add it at Settings, API.',
    };
  if (found.enabled) return ACTIVE;
  return {
    state: 'disabled',
    message: 'the webhook is switched off: Linear does that when its deliveries keep failing',
    hint: 'Run "worksync hooks install", or switch it on at Settings, API.',
  };
}
