import { bitbucket, github, githubIssues, gitlab, gitlabIssues } from './git.ts';
import type { ModelProvider } from './provider.ts';
import { azureBoards, generic, jira, linear, redmine, sentry, shortcut } from './trackers.ts';

/** One for each connector of the registry at least; the contract suite compares the two. */
export const modelProviders: readonly ModelProvider[] = [
  azureBoards,
  bitbucket,
  generic,
  github,
  githubIssues,
  gitlab,
  gitlabIssues,
  jira,
  linear,
  redmine,
  sentry,
  shortcut,
];
