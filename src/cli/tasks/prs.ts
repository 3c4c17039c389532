import type { Command } from 'commander';
import { GIT_PROVIDER_NAMES } from '../../model/git-providers.ts';
import { printable } from '../../platform/lib/text.ts';
import { PROVIDERS, PULL_REQUEST_STATES } from '../../workspace-api/contract/field-values.ts';
import type { Answered, Routes } from '../../workspace-api/contract.ts';
import { type AddCommands, collect, eachOf, oneOf } from '../command.ts';
import { addShorthands, type Shorthand } from '../shorthand.ts';
import { withText } from '../text-input.ts';

type PullRequest = Answered<Routes['updatePullRequest']>;

const FIELDS = {
  descriptionFile: 'description',
  repo: 'repoId',
  head: 'headBranch',
  base: 'baseBranch',
  reviewer: 'reviewers',
  label: 'labels',
  assignee: 'assignees',
};

function withFields(command: Command): Command {
  return withText(command, 'description')
    .requiredOption('--provider <name>', GIT_PROVIDER_NAMES, oneOf(PROVIDERS))
    .requiredOption('--repo <id>', "the repository, by the provider's id")
    .option('--state <state>', 'open, closed, merged or declined', oneOf(PULL_REQUEST_STATES))
    .option('--draft', 'a draft')
    .option('--no-draft', 'ready for review')
    .option('--reviewer <name>', 'a reviewer (Bitbucket: account UUID); may be repeated', collect)
    .option('--label <label>', 'a label; may be repeated', collect)
    .option('--assignee <name>', 'an assignee; may be repeated', collect);
}

const ROWS: readonly Shorthand[] = [
  {
    usage: 'list',
    description: 'list pull requests, newest first',
    example: 'prs list --provider github --state open',
    operation: 'listPullRequests',
    options: (command) =>
      command
        .option('--provider <name>', 'github, gitlab or bitbucket', oneOf(PROVIDERS))
        .option('--repo <id>', "the repository, by the provider's id")
        .option('--state <state>', 'open, closed, merged or declined; may be repeated', eachOf(PULL_REQUEST_STATES))
        .option('--head <branch>', 'only with this head branch'),
    fields: FIELDS,
    list: {
      name: 'pullRequests',
      columns: ({ provider, repoId, identifier, state, title, url }: PullRequest) => [
        provider,
        repoId,
        identifier,
        state,
        printable(title),
        printable(url ?? ''),
      ],
    },
  },
  {
    usage: 'create',
    description: 'open a pull request on its provider; with --identifier record one that exists there (idempotent)',
    example: 'prs create --provider github --repo 42 --head fix-login --base main --title "Fix login"',
    operation: 'createPullRequest',
    options: (command) =>
      withFields(command)
        .requiredOption('--title <text>', 'the title')
        .requiredOption('--head <branch>', 'the branch to merge; it must exist on the remote')
        .requiredOption('--base <branch>', 'the branch to merge into')
        .option('--identifier <number>', 'its number on the provider: records it, and does not contact the provider')
        .option('--url <address>', 'its address; for a record')
        .option('--author <name>', 'who opened it; for a record'),
    fields: FIELDS,
    show: ({ identifier, url }: PullRequest, fields, status) => {
      const done = fields['identifier'] === undefined ? 'opened' : status === 201 ? 'recorded' : 'already recorded';
      return `${done}  ${identifier}  ${printable(url ?? '')}`;
    },
  },
  {
    usage: 'update',
    description: 'edit a pull request; fields that you do not give stay as they are',
    example: 'prs update --provider github --repo 42 --identifier 7 --state closed',
    operation: 'updatePullRequest',
    options: (command) =>
      withFields(command)
        .requiredOption('--identifier <number>', 'its number on the provider')
        .option('--title <text>', 'the title')
        .option('--base <branch>', 'the branch to merge into'),
    fields: FIELDS,
    show: ({ identifier, state }: PullRequest) => `updated  ${identifier}  ${state}`,
  },
];

export const addPullRequests: AddCommands = (program, setting) => {
  const group = program
    .command('prs')
    .description("the workspace's pull requests: list, create, update")
    .exitOverride();
  addShorthands(group, ROWS, setting);
};
