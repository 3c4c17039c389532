import { azureBoards } from './azure-boards.ts';
import { bitbucket } from './bitbucket.ts';
import { generic } from './generic.ts';
import { github } from './github.ts';
import { githubIssues } from './github-issues.ts';
import { gitlab } from './gitlab.ts';
import { gitlabIssues } from './gitlab-issues.ts';
import { jira } from './jira.ts';
import { linear } from './linear.ts';
import type { ModelProvider } from './provider.ts';
import { redmine } from './redmine.ts';
import { sentry } from './sentry.ts';
import { shortcut } from './shortcut.ts';

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
