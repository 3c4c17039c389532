import { z } from 'zod';
import type { HookState, Hooks } from '../connector.ts';
import { hooksOfContainers } from '../kit/hooks.ts';
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
export function hooksOf(api: Api, followed: (signal: AbortSignal) => Promise<readonly Team[]>): Hooks {
  const told = new WeakSet<Registered>();
  return hooksOfContainers<Team, Registered>({
    followed,
    async leadingTo(url, signal) {
      const all = await readAll(async (after) => {
        const variables = after === undefined ? {} : { after };
        return (await api.ask({ document: WEBHOOKS, variables, data, use: 'background', signal })).data.webhooks;
      });
      return all.filter((each) => each.url === url);
    },
    subjectOf: ({ key }) => key,
    stateOf: (team, standing) => stateOf(team, hookFor(standing, team)),
    unknown: UNKNOWN,
    active: ACTIVE,
    async keep(team, standing, { url, secret }, signal) {
      const found = hookFor(standing, team);
      const input = { enabled: true, resourceTypes: TYPES, secret };
      const created = { ...input, label: 'worksync', url, teamId: team.id };
      if (!found) {
        await api.change(CREATE_WEBHOOK, { input: created }, signal);
        return 'created';
      }
      // Sends the secret each time: not every credential can see whether it is the same.
      if (!told.has(found)) await api.change(UPDATE_WEBHOOK, { id: found.id, input }, signal);
      told.add(found);
      return isWanted(found) ? 'unchanged' : 'updated';
    },
  });
}

const ACTIVE = { state: 'active', message: 'the webhook is registered' } as const;

const UNKNOWN = {
  state: 'unknown',
  message: 'only an administrator of Linear may read webhooks',
  hint: 'Look at Settings, API.',
} as const;

function hookFor(standing: readonly Registered[], team: Team): Registered | undefined {
  const own = standing.find((each) => each.team?.id === team.id);
  return own ?? (isPublic(team) ? standing.find(({ allPublicTeams }) => allPublicTeams) : undefined);
}

function isPublic({ visibility = 'public' }: Team): boolean {
  return visibility === 'public';
}

function stateOf(team: Team, found: Registered | undefined): Omit<HookState, 'subject'> {
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

function isWanted({ enabled, resourceTypes }: Registered): boolean {
  return enabled && TYPES.every((type) => resourceTypes.includes(type));
}
