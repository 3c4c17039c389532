import { parse } from 'yaml';

export const WORKFLOWS = '.github/workflows/*.{yml,yaml}';

/** A file of GitHub Actions, by its path. */
export interface Workflow {
  readonly file: string;
  readonly text: string;
}

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

type Permissions = Readonly<Record<string, string>> | string;

interface Job {
  readonly uses?: string;
  readonly permissions?: Permissions;
  readonly steps?: readonly Step[];
}

interface Content {
  readonly on: object | string;
  readonly permissions?: Permissions;
  readonly jobs: Readonly<Record<string, Job>>;
}

/** A commit cannot be moved to other code, as a tag can; the tag behind it is for people. */
const PINNED = /^[\w.-]+\/[\w./-]+@[0-9a-f]{40}$/;

/** Returns the faults of the workflows that publish, one sentence each: no code that may change, no unneeded right, no token. */
export function faultsOfWorkflows(workflows: readonly Workflow[]): readonly string[] {
  const all = workflows.flatMap(({ file, text }) => faultsOf(text).map((fault) => `${file}: ${fault}`));
  const publishes = workflows.some(({ text }) => /\bnpm publish\b/.test(text));
  return publishes ? all : [...all, 'no workflow publishes the package'];
}

function faultsOf(text: string): readonly string[] {
  const content = parse(text) as Content;
  const jobs = Object.values(content.jobs);
  const used = jobs.flatMap((job) => [job.uses, ...(job.steps ?? []).map(({ uses }) => uses)]);
  return [
    ...used
      .filter((name) => name !== undefined && !PINNED.test(name))
      .map((name) => `${name} is not pinned to a commit`),
    ...unnamed(text).map((name) => `${name} does not say which version its commit is`),
    ...(isWithout(content.permissions) ? [] : ['jobs get rights that they do not name themselves']),
    ...jobs.flatMap(faultsOfRights),
    ...jobs.flatMap(({ steps = [] }) => steps.flatMap(faultsOfStep)),
    ...(JSON.stringify(content.on).includes('pull_request_target') ? ['strangers can start it with our rights'] : []),
    ...(/\bsecrets\.|NODE_AUTH_TOKEN|NPM_TOKEN/.test(text) ? ['it takes a secret'] : []),
  ];
}

function unnamed(text: string): readonly string[] {
  return [...text.matchAll(/uses: *(\S+)(.*)/g)].flatMap(([, name = '', rest = '']) =>
    / # v\d+\.\d+\.\d+$/.test(rest) ? [] : [name],
  );
}

function isWithout(permissions: Permissions | undefined): boolean {
  return typeof permissions === 'object' && Object.keys(permissions).length === 0;
}

/**
 * The rights that a command needs, beside reading the repository. The registries believe the identity of a job, so only the jobs that
 * publish have one, and those cannot write to the repository.
 */
const RIGHTS: readonly (readonly [command: RegExp, rights: readonly string[]])[] = [
  [/\bnpm publish\b/, ['id-token: write']],
  [/\.ci\/publish-image\b/, ['id-token: write', 'packages: write']],
  [/\bgh release create\b/, ['contents: write', 'pull-requests: write']],
];

function faultsOfRights({ permissions, steps = [] }: Job): readonly string[] {
  if (typeof permissions !== 'object') return permissions === undefined ? [] : ['a job gets all rights'];
  const commands = steps.map(({ run = '' }) => run).join('\n');
  const needed = RIGHTS.flatMap(([command, rights]) => (command.test(commands) ? rights : []));
  return Object.entries(permissions)
    .map(([name, right]) => `${name}: ${right}`)
    .filter((right) => right !== 'contents: read' && !needed.includes(right))
    .map((right) => `a job gets the right ${right}`);
}

function faultsOfStep({ uses = '', run = '', with: given }: Step): readonly string[] {
  const isCheckout = uses.startsWith('actions/checkout@');
  return [
    ...(isCheckout && given?.['persist-credentials'] !== false ? ['the checkout leaves its token to later steps'] : []),
    ...(run.includes('${{') ? ['a command is made of what somebody else may have written'] : []),
    ...(/\bnpm publish\b/.test(run) && !run.includes('--provenance') ? ['the package comes without provenance'] : []),
    ...(/\bnpm (?:install|i|add|exec)\b|\bnpx\b/.test(run) ? ['packages are installed that no lock file names'] : []),
  ];
}
