/** The facts of a git provider that commands, the contract and the reference service need without its connector. */
interface GitProviderFacts {
  /** The provider's name for people. */
  readonly title: string;
  /** Stands before the number of a pull request. */
  readonly sign: '#' | '!';
  /** Stands between repository and number in the web address of a pull request. */
  readonly pullPath: string;
  /** The path of such an address: repository, number. */
  readonly pullAddress: RegExp;
  /** Fields that its pull requests do not have. */
  readonly lacks?: readonly ('labels' | 'assignees')[];
  /** It declines pull requests instead of closing them. */
  readonly declines?: true;
  /** The names of reviewers, if they are no user names. */
  readonly reviewers?: { readonly form: RegExp; readonly noun: string };
}

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';

const ROWS = {
  github: {
    title: 'GitHub',
    sign: '#',
    pullPath: '/pull/',
    pullAddress: /^\/([^/]+\/[^/]+)\/pull\/(\d{1,10})(?:\/|$)/,
  },
  gitlab: {
    title: 'GitLab',
    sign: '!',
    pullPath: '/-/merge_requests/',
    pullAddress: /^\/(.+?)(?:\/-)?\/merge_requests\/(\d{1,10})(?:\/|$)/,
  },
  bitbucket: {
    title: 'Bitbucket',
    sign: '#',
    pullPath: '/pull-requests/',
    pullAddress: /^\/([^/]+\/[^/]+)\/pull-requests\/(\d{1,10})(?:\/|$)/,
    lacks: ['labels', 'assignees'],
    declines: true,
    reviewers: { form: new RegExp(`^(?:\\{${UUID}\\}|${UUID})$`, 'i'), noun: 'account UUIDs' },
  },
} satisfies Readonly<Record<string, GitProviderFacts>>;

export type GitProviderId = keyof typeof ROWS;

/** The git providers by the ids of their connectors. The type of `gitConnector` requires a row for each. */
export const GIT_PROVIDERS: Readonly<Record<GitProviderId, GitProviderFacts>> = ROWS;

export const GIT_PROVIDER_IDS = Object.keys(ROWS) as readonly GitProviderId[];

/** The ids in a sentence: `github, gitlab or bitbucket`. */
export const GIT_PROVIDER_NAMES = new Intl.ListFormat('en-GB', { type: 'disjunction' }).format(GIT_PROVIDER_IDS);
