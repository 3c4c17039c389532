import type { Connector } from '../connector.ts';
import { namedIn } from '../kit/scope.ts';
import { createApi } from './api.ts';
import { createAppAuth, createAuth } from './auth.ts';
import { checkGithub } from './check.ts';
import { eventOf } from './event-of.ts';
import { fetchItem } from './fetch.ts';
import { grammar } from './grammar.ts';
import { createHistory } from './history.ts';
import { createHooks } from './hooks.ts';
import { type Options, options, scopeOf, shortestPoll, unrestricted } from './options.ts';
import { createFindHook } from './places.ts';
import { pollIssues, pollPulls } from './poll.ts';
import { createRedeliver } from './redeliver.ts';
import { createRepositories } from './repositories.ts';
import { createSweep } from './sweep.ts';
import { reference, translate } from './translate.ts';
import { readUnit, unitsOf } from './units.ts';
import { verify } from './verify.ts';
import { createGit } from './write.ts';
import { createWriteBack } from './write-back.ts';

const MEBIBYTE = 1024 * 1024;

/** GitHub: github.com, hosts under ghe.com, and GitHub Enterprise Server. */
export const github: Connector<Options> = {
  id: 'github',
  title: 'GitHub',
  publicHost: 'github.com',
  capabilities: {
    namesDeliveries: true,
    pullRequests: true,
    workItems: true,
    supportsLabels: true,
    supportsAssignees: true,
    supportsReviewers: true,
    supportsDraft: true,
    reopensClosed: true,
  },
  grammar,
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: (given) => given.host,
  shortestPoll,
  fetchesCommits: ({ commits }) => commits,
  exclusive: ({ host, app }) => app && `GitHub App ${app.id} of ${host}`,
  verify,
  translate,
  unrestricted,
  eventOf,
  reference,
  namesIn: (given) => namedIn(scopeOf(given)),
  git: createGit,
  connect(given, deps) {
    const { clock } = deps;
    const api = createApi(given, deps, (send) => createAuth(given, send, clock));
    const { app } = given;
    const appApi = app && createApi(given, deps, () => createAppAuth(app, clock));
    const repositories = createRepositories(api, given, clock);
    const findHook = createFindHook(api);
    return {
      units: async (signal) => unitsOf(await repositories.units(signal), given.issues),
      poll(position, signal) {
        const { repository, list } = readUnit(position.unit);
        if (list === 'pulls') return pollPulls(api, repository, position, signal);
        return pollIssues(api, repositories, repository, position, signal);
      },
      identify: (name, signal) => repositories.present(name, signal),
      fetch: (wanted, signal, known) => fetchItem({ api, clock, commits: given.commits, signal, ...known }, wanted),
      check: (signal) => checkGithub({ api, appApi, options: given, repositories }, signal),
      history: createHistory(api, repositories),
      sweep: createSweep(api, repositories, given),
      redeliver: createRedeliver({ api, appApi, options: given, repositories, findHook, clock }),
      hooks: createHooks({ api, appApi, options: given, repositories, findHook }),
      ...createWriteBack(api, appApi, clock),
    };
  },
};
