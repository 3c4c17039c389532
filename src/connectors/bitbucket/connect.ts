import { z } from 'zod';
import { asSyncError } from '../../model/errors/sync-error.ts';
import { STATUS_NAME } from '../../model/notice.ts';
import type { ConnectionDeps } from '../connector.ts';
import { memoizeSuccess } from '../kit/cached-reads.ts';
import { upsertHiddenComment } from '../kit/comments.ts';
import { messageText, withCommits } from '../kit/commits.ts';
import type { GitSource } from '../kit/git.ts';
import { absent, readable } from '../kit/payload.ts';
import { malformed, undefinedOn } from '../kit/refusal.ts';
import { createApi } from './api.ts';
import { createChecks } from './check.ts';
import { createHooks } from './hooks.ts';
import type { Locator } from './items.ts';
import { createLists } from './lists.ts';
import { type Options, REPOSITORY } from './options.ts';
import { createRepositories, repositoryPath } from './repositories.ts';
import { FIELDS_OF_ONE, uuid } from './schema.ts';

/** The API of Bitbucket, with one credential. */
export function connect(options: Options, deps: ConnectionDeps): GitSource<Locator> {
  const api = createApi(options, deps);
  const repositories = createRepositories(api, options, deps.clock);
  // Bitbucket tells whose token it is only where the token has a further right.
  const me = memoizeSuccess((signal) =>
    undefinedOn(
      api.read(z.unknown(), '/user', { query: 'fields=uuid', signal }),
      'forbidden',
      'unauthorized',
      'not_found',
    ),
  );

  async function pull(workspace: string, wanted: Locator, commitsSha: string | undefined, signal: AbortSignal) {
    const path = pullPath(workspace, wanted);
    const found = await api.read(z.unknown(), path, { query: `fields=${FIELDS_OF_ONE}`, keep: true, signal });
    // The answer must contain the id of the repository by which the request asked.
    if (readable(withRepository, found) !== wanted.repoId)
      throw malformed(`GET ${path}: the pull request belongs to another repository, or to none`);
    return withCommits(
      found,
      readable(withHead, found),
      { ...options, commitsSha },
      {
        pages: () => api.pages(z.unknown(), `${path}/commits`, { query: COMMITS, signal, keep: true }),
        messageOf,
        order: 'newest first',
      },
    );
  }

  /** The present name of the repository. The empty braces stand in place of the workspace: the id of a repository is enough. */
  async function presentName({ repoId }: Locator, signal: AbortSignal): Promise<string | undefined> {
    const answer = await api.read(z.unknown(), repositoryPath(`{}/${repoId}`), {
      query: 'fields=uuid,full_name',
      signal,
    });
    const told = readable(withName, answer);
    return told?.uuid === repoId ? told.full_name : undefined;
  }

  return {
    units: repositories.units,
    requireReadable: repositories.requireReadable,
    ...createLists(api),
    ...createChecks(api, options, repositories),
    identify: repositories.present,
    /**
     * Asks by the repository's id: so a new name does not hide it, and another repository under the old name does not replace
     * it. Where the item is not found, asks the repository whether it moved to another workspace.
     */
    async item(_, locator, { commitsSha }, signal) {
      const workspace = workspaceOf(locator.repository);
      try {
        return { found: await pull(workspace, locator, commitsSha, signal) };
      } catch (thrown) {
        const name = asSyncError(thrown).code === 'not_found' ? await presentName(locator, signal) : undefined;
        if (name === undefined) throw thrown;
        // This credential sees the repository, which has no such pull request.
        if (workspaceOf(name) === workspace) return { isGone: true };
        return { found: await pull(workspaceOf(name), locator, commitsSha, signal) };
      }
    },
    /** `item` itself throws where this credential cannot see the repository. */
    async requireVisible() {},
    hooks: createHooks(api, options, repositories),
    // BB8
    status: {
      right: 'the scope repository; only who made a status may write it again',
      write({ repository, repoId, number }, { sha, state, text, url }, signal) {
        const path = `${repositoryPath(`${workspaceOf(repository)}/${repoId}`)}/commit/${sha}/statuses/build`;
        const body = {
          key: STATUS_NAME,
          name: STATUS_NAME,
          state: state === 'failure' ? 'FAILED' : 'SUCCESSFUL',
          description: text,
          // Bitbucket insists on an address.
          url: url ?? `https://bitbucket.org/${repository}/pull-requests/${number}`,
        };
        return api.write('POST', path, { body, signal });
      },
    },
    async comment(_, locator, given, signal) {
      const path = `${pullPath(workspaceOf(locator.repository), locator)}/comments`;
      const us = readable(account, await me(signal));
      return upsertHiddenComment<Comment>(given, {
        async *pages() {
          for await (const page of api.pages(comment, path, { query: `pagelen=100&fields=${FIELDS}`, signal }))
            yield page.filter(({ deleted }) => deleted !== true);
        },
        textOf: ({ content }) => content?.raw ?? '',
        authorOf: ({ user }) => user?.uuid,
        ownAuthor: async () => us?.uuid,
        post: (raw) => api.write('POST', path, { body: { content: { raw } }, signal }),
        edit: ({ id }, raw) => api.write('PUT', `${path}/${id}`, { body: { content: { raw } }, signal }),
      });
    },
  };
}

function pullPath(workspace: string, { repoId, number }: Locator): string {
  return `${repositoryPath(`${workspace}/${repoId}`)}/pullrequests/${number}`;
}

function workspaceOf(name: string): string {
  return (name.split('/', 1)[0] as string).toLowerCase();
}

const COMMITS = 'pagelen=100&fields=next,values.message';
const messageOf = z.object({ message: messageText }).transform(({ message }) => message);

const withHead = z
  .object({ source: z.object({ commit: z.object({ hash: z.string() }) }) })
  .transform(({ source }) => source.commit.hash);
const withRepository = z
  .object({ destination: z.object({ repository: z.object({ uuid: z.string() }) }) })
  .transform(({ destination }) => destination.repository.uuid);
const withName = z.object({ uuid: z.string(), full_name: z.string().regex(REPOSITORY) });

const FIELDS = 'next,values.id,values.deleted,values.content.raw,values.user.uuid';
const account = z.object({ uuid });
const comment = z.object({
  id: z.int().positive(),
  deleted: absent(z.boolean()),
  content: absent(z.object({ raw: z.string() })),
  user: absent(account.nullable()),
});
type Comment = z.infer<typeof comment>;
