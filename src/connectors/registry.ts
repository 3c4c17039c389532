import { azureBoards } from './azure-boards/index.ts';
import { bitbucket } from './bitbucket/index.ts';
import type { Connector } from './connector.ts';
import { generic } from './generic/index.ts';
import { github } from './github/index.ts';
import { gitlab } from './gitlab/index.ts';
import { jira } from './jira/index.ts';
import { linear } from './linear/index.ts';
import { redmine } from './redmine/index.ts';
import { sentry } from './sentry/index.ts';
import { shortcut } from './shortcut/index.ts';

/**
 * Every connector. Their options differ, so their type is unknown here: the methods of a connector get what its own `options` schema
 * has parsed. A test compares this list with the folders.
 */
export const connectors: readonly Connector<unknown>[] = [
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
