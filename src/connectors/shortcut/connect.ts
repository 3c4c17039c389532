import { z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import { plainComment } from '../../model/notice.ts';
import type { ConnectionDeps } from '../connector.ts';
import { findingsOf } from '../kit/check.ts';
import { upsertComment } from '../kit/comments.ts';
import { type Locator, mustCheckScope } from '../kit/items.ts';
import { isNamed, UUID } from '../kit/payload.ts';
import { onOneLine, type Refusals } from '../kit/refusal.ts';
import { createRest } from '../kit/rest.ts';
import type { TrackerSource } from '../kit/tracker.ts';
import { baseOf, type Options } from './options.ts';
import * as schema from './schema.ts';
import { windowOf } from './windows.ts';

const QUERY = '/stories/search';

const refusals: Refusals = {
  hints: { 401: 'Set token to an API token of a member: Settings → Your Account → API Tokens.' },
};

/** The API of one token's workspace. */
export function connect(options: Options, deps: ConnectionDeps): TrackerSource<schema.Team> {
  const headers = { 'shortcut-token': options.token };
  const api = createRest({ target: 'shortcut', base: baseOf(options), headers, refusals }, deps);
  const pathOf = ({ id }: Pick<Locator, 'id'>) => `/stories/${id}`;
  const me = async (signal: AbortSignal) => (await api.read(schema.member, '/member', {}, signal)).content;
  const teams = async (signal: AbortSignal) => (await api.read(z.array(schema.team), '/groups', {}, signal)).content;

  async function team(unit: string, signal: AbortSignal): Promise<schema.Team> {
    if (UUID.test(unit)) return (await api.read(schema.team, `/groups/${unit}`, {}, signal)).content;
    const found = (await teams(signal)).find(({ mention_name: name }) => name.toLowerCase() === unit);
    if (found) return found;
    throw new SyncError('not_found', `the token can see no team ${unit}`);
  }

  const list: TrackerSource<schema.Team>['list'] = async ({ unit, selection, page }, signal) => {
    const group_id = UUID.test(unit) ? unit : (await team(unit, signal)).id;
    const { query, next } = windowOf(selection, page, deps.clock.now());
    const question = { group_id, includes_description: selection.items !== 'ids', ...query };
    const { content, answer } = await api.search(schema.page, QUERY, question, signal, schema.KEPT);
    return { found: content.map(schema.slim), next, answer, isWindow: true };
  };

  return {
    containers: teams,
    container: team,
    list,
    /** One that lost its team stays with the one that it had; one that never had any is not read. */
    async item(locator, signal) {
      const { content } = await api.read(schema.aStory, pathOf(locator), {}, signal, schema.KEPT);
      const group_id = content.group_id ?? locator.container;
      if (group_id === undefined) return { isGone: false };
      const story = { ...(schema.slim(content) as object), group_id };
      return { found: mustCheckScope(locator) ? { story, team: await team(group_id, signal) } : { story } };
    },
    about: async (signal) => ({
      first: await findingsOf('credential', async () => {
        const { name } = await me(signal);
        return [{ level: 'ok', subject: 'credential', message: `of ${onOneLine(name, 100)}` }];
      }),
    }),
    describe: async (unit, { mention_name: name }) => ({ level: 'ok', subject: unit, message: `@${name} can be read` }),
    /** Nobody documents that a comment hides HTML: the words of the marker are its last line. */
    async comment(locator, given, signal) {
      const path = `${pathOf(locator)}/comments`;
      const author = (await me(signal)).id;
      return upsertComment<schema.Comment>(given, {
        write: (text, words) => `${text}\n\n${words}`,
        plain: (text) => text.replace(/\r\n?/g, '\n').trim(),
        async *pages() {
          const { content } = await api.read(z.array(schema.comment), path, {}, signal);
          yield content.filter(({ deleted }) => deleted !== true);
        },
        textOf: ({ text }) => text ?? '',
        authorOf: ({ author_id: by }) => by ?? undefined,
        ownAuthor: async () => author,
        post: (text) => api.send('POST', path, { text }, signal),
        edit: ({ id }, text) => api.send('PUT', `${path}/${id}`, { text }, signal),
        toComment: (_, text) => ({ author, text: plainComment(text) }),
      });
    },
    /** A story that is completed is left as it is. Otherwise it goes to a state of type done in its own workflow. */
    async close(locator, key, signal) {
      const { completed, workflow_id } = (await api.read(schema.closing, pathOf(locator), {}, signal)).content;
      if (completed) return;
      const { states } = (await api.read(schema.workflow, `/workflows/${workflow_id}`, {}, signal)).content;
      const [chosen] = states
        .filter(({ type, name }) => type === 'done' && isNamed(name, options.completedStatus))
        .toSorted((one, other) => one.position - other.position);
      if (chosen) {
        await api.send('PUT', pathOf(locator), { workflow_state_id: chosen.id }, signal);
        return;
      }
      throw new SyncError('conflict', `${key} cannot be closed: its workflow has no such state of type done`, {
        hint: 'Set completedStatus to a state of type done that each workflow has, or leave it out.',
      });
    },
  };
}
