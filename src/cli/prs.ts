import type { Command } from 'commander';
import { GIT_PROVIDER_NAMES } from '../model/git-providers.ts';
import { PROVIDERS, PULL_REQUEST_STATES } from '../workspace-api/contract/field-values.ts';
import type { Answered, Parameters, Routes } from '../workspace-api/contract.ts';
import { type Exit, eachOf, oneOf, type Setting } from './setting.ts';
import { textOf, withText } from './text-input.ts';
import { printable, table } from './words.ts';
import {
  gather,
  type ListFlags,
  listCommand,
  readPages,
  runOnWorkspace,
  type WorkspaceFlags,
  workspaceCommand,
} from './workspace-command.ts';

type PullRequest = Answered<Routes['updatePullRequest']>;
type PullRequestQuery = NonNullable<Parameters<Routes['listPullRequests']>['query']>;
type NewPullRequest = Parameters<Routes['createPullRequest']>['body'];
type PullRequestEdit = Parameters<Routes['updatePullRequest']>['body'];

/** `worksync prs`. */
export function addPullRequests(program: Command, setting: Setting, exit: Exit): void {
  const group = program
    .command('prs')
    .description("the workspace's pull requests: list, create, update")
    .exitOverride();
  addList(group, setting, exit);
  addCreate(group, setting, exit);
  addUpdate(group, setting, exit);
}

type ListOf = ListFlags & { provider?: string; repo?: string; state?: readonly string[]; head?: string };

function addList(group: Command, setting: Setting, exit: Exit): void {
  const described = {
    usage: 'list',
    description: 'list pull requests, newest first',
    example: 'prs list --provider github --state open',
  };
  listCommand(group, described)
    .option('--provider <name>', GIT_PROVIDER_NAMES, oneOf(PROVIDERS))
    .option('--repo <id>', "the repository, by the provider's id")
    .option('--state <state>', 'open, closed, merged or declined; may be repeated', eachOf(PULL_REQUEST_STATES))
    .option('--head <branch>', 'only with this head branch')
    .action((flags: ListOf) =>
      runOnWorkspace(setting, exit, flags, async (client) => {
        const filters = { provider: flags.provider, repoId: flags.repo, state: flags.state, headBranch: flags.head };
        const found = await readPages(flags, async (page) => {
          const query = { ...filters, ...page } as PullRequestQuery;
          const { pullRequests, nextCursor } = (await client.listPullRequests({ query }, {})).body;
          return { entries: pullRequests, nextCursor };
        });
        return { text: table(found.map(rowOf)), json: found };
      }),
    );
}

function rowOf({ provider, repoId, identifier, state, title, url }: PullRequest): string[] {
  return [provider, repoId, identifier, state, printable(title), printable(url ?? '')];
}

/** Flags that a new request and an edit share. */
interface FieldFlags extends WorkspaceFlags {
  readonly provider: string;
  readonly repo: string;
  readonly title?: string;
  readonly base?: string;
  readonly draft?: boolean;
  readonly state?: string;
  readonly reviewer?: readonly string[];
  readonly label?: readonly string[];
  readonly assignee?: readonly string[];
}

function withFields(command: Command): Command {
  return withText(command, 'description')
    .requiredOption('--provider <name>', GIT_PROVIDER_NAMES, oneOf(PROVIDERS))
    .requiredOption('--repo <id>', "the repository, by the provider's id")
    .option('--state <state>', 'open, closed, merged or declined', oneOf(PULL_REQUEST_STATES))
    .option('--draft', 'a draft')
    .option('--no-draft', 'ready for review')
    .option('--reviewer <name>', 'a reviewer (Bitbucket: account UUID); may be repeated', gather)
    .option('--label <label>', 'a label; may be repeated', gather)
    .option('--assignee <name>', 'an assignee; may be repeated', gather);
}

function fieldsOf(flags: FieldFlags) {
  return {
    provider: flags.provider as NewPullRequest['provider'],
    repoId: flags.repo,
    description: textOf(flags as never, 'description'),
    draft: flags.draft,
    state: flags.state as NewPullRequest['state'],
    reviewers: flags.reviewer && [...flags.reviewer],
    labels: flags.label && [...flags.label],
    assignees: flags.assignee && [...flags.assignee],
  };
}

type CreateFlags = FieldFlags & { title: string; head: string; base: string; identifier?: string } & Pick<
    NewPullRequest,
    'url' | 'author'
  >;

function addCreate(group: Command, setting: Setting, exit: Exit): void {
  const command = workspaceCommand(group, {
    usage: 'create',
    description: 'open a pull request on its provider; with --identifier record one that exists there (idempotent)',
    example: 'prs create --provider github --repo 42 --head fix-login --base main --title "Fix login"',
  });
  withFields(command)
    .requiredOption('--title <text>', 'the title')
    .requiredOption('--head <branch>', 'the branch to merge; it must exist on the remote')
    .requiredOption('--base <branch>', 'the branch to merge into')
    .option('--identifier <number>', 'its number on the provider: records it, and does not contact the provider')
    .option('--url <address>', 'its address; for a record')
    .option('--author <name>', 'who opened it; for a record')
    .action((flags: CreateFlags) => {
      const { title, head: headBranch, base: baseBranch, identifier, url, author } = flags;
      const body = { ...fieldsOf(flags), title, headBranch, baseBranch, identifier, url, author };
      return runOnWorkspace(setting, exit, flags, async (client) => {
        const answer = await client.createPullRequest({ body }, {});
        const done = identifier === undefined ? 'opened' : answer.status === 201 ? 'recorded' : 'already recorded';
        return { text: `${done}  ${answer.body.identifier}  ${printable(answer.body.url ?? '')}`, json: [answer.body] };
      });
    });
}

function addUpdate(group: Command, setting: Setting, exit: Exit): void {
  const command = workspaceCommand(group, {
    usage: 'update',
    description: 'edit a pull request; fields that you do not give stay as they are',
    example: 'prs update --provider github --repo 42 --identifier 7 --state closed',
  });
  withFields(command)
    .requiredOption('--identifier <number>', 'its number on the provider')
    .option('--title <text>', 'the title')
    .option('--base <branch>', 'the branch to merge into')
    .action((flags: FieldFlags & { identifier: string }) => {
      const { title, base: baseBranch, identifier } = flags;
      const body: PullRequestEdit = { ...fieldsOf(flags), title, baseBranch, identifier };
      return runOnWorkspace(setting, exit, flags, async (client) => {
        const updated = (await client.updatePullRequest({ body }, {})).body;
        return { text: `updated  ${updated.identifier}  ${updated.state}`, json: [updated] };
      });
    });
}
