import { describe } from 'vitest';
import { describeAgents, describeLeases } from './workspace/agents.ts';
import { describeDocuments, describeTaskDocuments } from './workspace/documents.ts';
import { describeFiles } from './workspace/files.ts';
import { describeApiKeys, describeGeneral } from './workspace/general.ts';
import { describeIsolation } from './workspace/isolation.ts';
import { describeProvider, describePullRequests } from './workspace/pull-requests.ts';
import { describeQuota } from './workspace/quota.ts';
import { isEmbedded, useTarget } from './workspace/target.ts';
import { describeTasks, describeWorkItems } from './workspace/tasks.ts';
import { describeDeliveries, describeWebhooks } from './workspace/webhooks.ts';

/**
 * The workspace API, rule by rule, over HTTP. Each test names the rule of
 * `src/workspace-api/contract.md` that it proves. Runs over the reference service, or over any server: see `workspace/target.ts`.
 * Tests that must control the server (its clock, users, faults) are registered for the reference service only.
 */
describe('workspace API', () => {
  const held = useTarget();
  describeGeneral(held);
  describe('tasks', () => {
    describeTasks(held);
  });
  describe('work items', () => {
    describeWorkItems(held);
  });
  describe('documents', () => {
    describeDocuments(held);
    describeTaskDocuments(held);
  });
  describe('files', () => {
    describeFiles(held);
  });
  describe('pull requests', () => {
    describePullRequests(held);
  });
  describe('API keys', () => {
    describeApiKeys(held);
  });
  describe('agents', () => {
    describeAgents(held);
  });
  describe('webhooks', () => {
    describeWebhooks(held);
  });
});

describe.runIf(isEmbedded)('pull requests on the provider (need a provider beside the service)', () => {
  describeProvider();
});

describe.runIf(isEmbedded)('deliveries of webhooks (need a receiver beside the service)', () => {
  describeDeliveries();
});

describe.runIf(isEmbedded)('leases (control the clock of the service)', () => {
  describeLeases();
});

describe.runIf(isEmbedded)('limits (control the clock of the service)', () => {
  describeQuota();
});

describe.runIf(isEmbedded)('workspaces are apart (needs two of them)', () => {
  describeIsolation();
});
