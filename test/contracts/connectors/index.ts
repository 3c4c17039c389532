import { profile as azureBoards } from './azure-boards.ts';
import { profile as bitbucket } from './bitbucket.ts';
import { profile as generic } from './generic.ts';
import { profile as github } from './github.ts';
import { profile as gitlab } from './gitlab.ts';
import { profile as jira } from './jira.ts';
import { profile as linear } from './linear.ts';
import type { ConnectorProfile } from './profile.ts';
import { profile as redmine } from './redmine.ts';
import { profile as sentry } from './sentry.ts';
import { profile as shortcut } from './shortcut.ts';

export const PROFILES: readonly ConnectorProfile[] = [
  azureBoards,
  bitbucket,
  generic,
  github,
  gitlab,
  jira,
  linear,
  redmine,
  sentry,
  shortcut,
];
