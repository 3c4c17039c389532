import type { HttpClient, HttpRequest } from '../../../../src/platform/http/http-client.ts';
import { bitbucket, gitlab } from './git.ts';
import { github } from './github.ts';
import { linear } from './linear.ts';
import { type Description, problemOf } from './operation.ts';
import { surprises } from './surprises.ts';
import { azureBoards, jira, redmine, sentry, shortcut } from './trackers.ts';

/** By the id of the connector, which is what requests name as their target. The feed of `generic` is nobody's but ours. */
export const DESCRIPTIONS: Readonly<Record<string, Description>> = {
  'azure-boards': azureBoards,
  bitbucket,
  github,
  gitlab,
  jira,
  linear,
  redmine,
  sentry,
  shortcut,
};

/** Returns the part of a request that the vendor does not document. */
export function undocumented(request: HttpRequest): string | undefined {
  const description = DESCRIPTIONS[request.target];
  return description && problemOf(description, request);
}

/** Fails the test that sends a vendor what it does not document. */
export function requireDocumented(request: HttpRequest): void {
  const problem = undocumented(request);
  if (problem === undefined) return;
  surprises.push(problem);
  throw new Error(problem);
}

/** Wraps a client so that it allows only requests that the vendors document. */
export function documentedOnly(http: HttpClient): HttpClient {
  return {
    async request(request) {
      requireDocumented(request);
      return http.request(request);
    },
    close: () => http.close(),
  };
}
