import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { HookState, Hooks } from '../connector.ts';
import { type Api, pageOf, readAll } from './api.ts';
import { CREATE_WEBHOOK, UPDATE_WEBHOOK, WEBHOOKS } from './queries.ts';
import * as schema from './schema.ts';
import { readTeam, type Team } from './teams.ts';

const TYPES = ['Comment', 'Issue'];

const hook = z.object({
  id: schema.id,
  url: z.string().nullish(),
  enabled: z.boolean(),
  resourceTypes: z.array(z.string()),
  allPublicTeams: z.boolean(),
  team: z.object({ id: z.string() }).nullish(),
});

type Registered = z.infer<typeof hook>;

const data = z.object({ webhooks: pageOf(hook) });

/** A webhook for each team; one for all public teams that leads here stands for each of those, and for no other. */
export function hooksOf(api: Api, units: (signal: AbortSignal) => Promise<readonly string[]>): Hooks {
  async function leadingTo(url: string, signal: AbortSignal): Promise<readonly Registered[]> {
    const all = await readAll(async (after) => {
      const variables = after === undefined ? {} : { after };
      return (await api.ask({ document: WEBHOOKS, variables, data, use: 'background', signal })).data.webhooks;
    });
    return all.filter((each) => each.url === url);
  }

  async function teams(signal: AbortSignal): Promise<readonly Team[]> {
    const found: Team[] = [];
    for (const unit of await units(signal)) found.push(await readTeam(api, unit, signal));
    return found;
  }

  return {
    async states(url, signal) {
      const wanted = await teams(signal);
      try {
        const standing = await leadingTo(url, signal);
        return wanted.map((team) => stateOf(team, hookFor(standing, team)));
      } catch (thrown) {
        const error = asSyncError(thrown);
        if (error.code !== 'forbidden' && error.code !== 'unauthorized') throw error;
        return wanted.map(({ key }) => ({ ...UNKNOWN, subject: key }));
      }
    },
    async install(url, secret, signal) {
      const wanted = await teams(signal);
      const standing = await leadingTo(url, signal);
      const done: Awaited<ReturnType<Hooks['install']>>[number][] = [];
      const told = new Set<string>();
      for (const team of wanted) {
        const found = hookFor(standing, team);
        const outcome = !found ? 'created' : isWanted(found) ? 'unchanged' : 'updated';
        const input = { enabled: true, resourceTypes: TYPES, secret };
        if (!found)
          await api.change(CREATE_WEBHOOK, { input: { ...input, label: 'worksync', url, teamId: team.id } }, signal);
        // The secret is told each time: whether it is the same cannot be seen by everybody.
        else if (!told.has(found.id)) await api.change(UPDATE_WEBHOOK, { id: found.id, input }, signal);
        if (found) told.add(found.id);
        done.push({ ...ACTIVE, subject: team.key, outcome });
      }
      return done;
    },
  };
}

const ACTIVE = { state: 'active', message: 'the webhook is registered' } as const;

const UNKNOWN = {
  state: 'unknown',
  message: 'only an administrator of Linear may look at webhooks',
  hint: 'Look at Settings, API.',
} as const;

function hookFor(standing: readonly Registered[], team: Team): Registered | undefined {
  const own = standing.find((each) => each.team?.id === team.id);
  return own ?? (isPublic(team) ? standing.find(({ allPublicTeams }) => allPublicTeams) : undefined);
}

function isPublic({ visibility = 'public' }: Team): boolean {
  return visibility === 'public';
}

function stateOf(team: Team, found: Registered | undefined): HookState {
  const { key: subject } = team;
  if (!found)
    return {
      subject,
      state: 'absent',
      message: isPublic(team)
        ? 'no webhook leads here'
        : 'no webhook of its own leads here, and a private team is in none for all public teams',
      hint: 'Run "worksync hooks install" with a key of an administrator, or add it at Settings, API.',
    };
  if (found.enabled) return { ...ACTIVE, subject };
  return {
    subject,
    state: 'disabled',
    message: 'the webhook is switched off: Linear does that to one that keeps failing',
    hint: 'Run "worksync hooks install", or switch it on at Settings, API.',
  };
}

function isWanted({ enabled, resourceTypes }: Registered): boolean {
  return enabled && TYPES.every((type) => resourceTypes.includes(type));
}
