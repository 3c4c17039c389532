import type { Plan } from './plan.ts';

/**
 * What the simulation found, as short as it could be made, and what was wrong. The plan stands here in full: what a seed
 * draws changes with each change of what is drawn.
 */
export interface Kept {
  readonly why: string;
  readonly plan: Plan;
}

const ALONE = { replicas: 1, forges: ['github'], trackers: ['linear'], share: 1, length: 3_600_000 } as const;

export const KEPT: readonly Kept[] = [
  {
    why: 'while our clock was behind, a late webhook of the same second replaced what a poll had found',
    plan: {
      ...{ ...ALONE, seed: 20_018, forges: ['gitlab'] },
      happenings: [
        { at: 425_502, do: 'jump', replica: 0, by: -4_445_673 },
        {
          ...{ at: 1_534_859, do: 'pull', forge: 'gitlab', number: 6, change: { state: 'closed' } },
          hooks: { delays: [463_206], again: true },
        },
        {
          ...{ at: 1_534_935, do: 'pull', forge: 'gitlab', number: 6, change: { description: 'Words.' } },
          hooks: { delays: [], again: true },
        },
      ],
    },
  },
  {
    why: 'after the clock was set back newer states were dropped as older than what was held',
    plan: {
      ...{ ...ALONE, seed: 37 },
      happenings: [
        { at: 1_286_904, do: 'pull', forge: 'github', number: 7, change: {}, hooks: { delays: [870], again: true } },
        { at: 1_584_208, do: 'jump', replica: 0, by: -4_619_187 },
        {
          at: 1_616_951,
          do: 'pull',
          forge: 'github',
          number: 7,
          change: { names: 4 },
          hooks: { delays: [586], again: true },
        },
      ],
    },
  },
  {
    why: 'after a restore the daemon wrote before it had read, and created a task twice',
    plan: {
      ...{ ...ALONE, seed: 34, share: 0.8, length: 3_240_000, forges: ['github', 'bitbucket', 'gitlab'] },
      happenings: [
        { at: 329_791, do: 'backup' },
        {
          at: 406_159,
          do: 'pull',
          forge: 'github',
          number: 9,
          change: { names: 5, state: 'merged', labels: ['api', 'bug'], description: '' },
          hooks: { delays: [83_853], again: false },
        },
        {
          at: 1_650_383,
          do: 'issue',
          tracker: 'linear',
          number: 1,
          change: 'edited',
          hooks: { delays: [], again: false },
        },
        { at: 1_797_060, do: 'restore', back: 1_000 },
      ],
    },
  },
  {
    why: 'where the clock was set back to before triage began, new items got no task',
    plan: {
      ...{ ...ALONE, seed: 14 },
      happenings: [
        { at: 842_166, do: 'jump', replica: 0, by: -6_127_312 },
        {
          at: 2_379_641,
          do: 'issue',
          tracker: 'linear',
          number: 1,
          change: 'open',
          hooks: { delays: [452], again: true },
        },
      ],
    },
  },
  {
    why: 'while the clock was behind, a delivery that came late overwrote newer states for good',
    plan: {
      ...{ seed: 188, replicas: 1, forges: ['gitlab'], trackers: ['jira', 'linear'], share: 1, length: 2580000 },
      happenings: [
        {
          at: 271946,
          do: 'issue',
          tracker: 'linear',
          number: 2,
          change: 'open',
          hooks: { delays: [1267], again: true },
        },
        { at: 468039, do: 'jump', replica: 0, by: -6978787 },
        {
          at: 1081108,
          do: 'pull',
          forge: 'gitlab',
          number: 1,
          change: { state: 'merged', draft: true, labels: ['bug'], reviewers: [] },
          hooks: { delays: [298902], again: false },
        },
        {
          at: 1119478,
          do: 'pull',
          forge: 'gitlab',
          number: 1,
          change: { names: 1 },
          hooks: { delays: [], again: true },
        },
      ],
    },
  },
  {
    why: 'a workspace that could not be opened while the database was away was owned by a process that never tried again',
    plan: {
      ...{ seed: 129, replicas: 3, forges: ['gitlab', 'bitbucket'], trackers: ['jira', 'generic', 'linear'] },
      ...{ share: 0.8, length: 1_380_000 },
      happenings: [
        {
          at: 743_012,
          do: 'pull',
          forge: 'gitlab',
          number: 1,
          change: { names: 2, draft: false },
          hooks: { delays: [1_713], again: true },
        },
        { at: 762_940, do: 'store-away', share: 0.40365840297657996, for: 55_000 },
      ],
    },
  },
  {
    why: 'leases that were taken by a commit whose answer was lost were held by a process that did not know of them',
    plan: {
      seed: 23,
      replicas: 3,
      forges: ['bitbucket'],
      trackers: ['linear', 'generic'],
      share: 1,
      events: true,
      writeBack: false,
      length: 2280000,
      happenings: [
        { at: 593978, do: 'task' },
        { at: 686428, do: 'task' },
        { at: 790962, do: 'store-away', share: 0.30867860044818374, for: 113000 },
        {
          at: 795026,
          do: 'pull',
          forge: 'bitbucket',
          number: 2,
          change: { names: 0, labels: ['bug'], prose: { kind: 11, task: 2, other: 6, item: 6 } },
          hooks: { delays: [945], again: true },
        },
        {
          at: 825900,
          do: 'pull',
          forge: 'bitbucket',
          number: 3,
          change: { prose: { kind: 4, task: 2, other: 1, item: 6 } },
          hooks: { delays: [1848], again: true },
        },
        { at: 890573, do: 'task' },
      ],
    },
  },
  {
    why: 'after the clock was set back what people changed by hand was not put right until the old time had come again',
    plan: {
      ...{ ...ALONE, seed: 5_116, length: 1_200_000 },
      happenings: [
        { at: 60_000, do: 'pull', forge: 'github', number: 1, change: {}, hooks: { delays: [500], again: true } },
        { at: 300_000, do: 'jump', replica: 0, by: -7_000_000 },
        { at: 310_000, do: 'jump', replica: 0, by: -7_000_000 },
        { at: 400_000, do: 'edit-record', pick: 0 },
      ],
    },
  },
  {
    why: 'a comment was looked for, and then posted though the vendor had told a poll meanwhile how long to leave it alone',
    plan: {
      ...{ seed: 42_400, replicas: 1, forges: ['bitbucket', 'gitlab'], trackers: ['generic', 'jira'], share: 'auto' },
      ...{ events: false, writeBack: true, length: 2_520_000 },
      happenings: [
        {
          at: 547_926,
          do: 'pull',
          forge: 'gitlab',
          number: 3,
          change: {
            labels: ['api', 'bug'],
            reviewers: ['ben'],
            description: 'Other words.',
            prose: { kind: 12, task: 5, other: 5, item: 3 },
          },
          hooks: { delays: [969, 287_735], again: false },
        },
        {
          at: 550_098,
          do: 'weather',
          server: 'jira.test',
          trouble: 'limited',
          share: 0.5608884731307626,
          for: 1_140_000,
        },
        { at: 558_176, do: 'pull', forge: 'gitlab', number: 3, change: {}, hooks: { delays: [281_493], again: true } },
        {
          at: 1_043_957,
          do: 'weather',
          server: 'workspace.test',
          trouble: 'lost-before',
          share: 0.18857651203870773,
          for: 171_000,
        },
        {
          at: 1_242_237,
          do: 'issue',
          tracker: 'jira',
          number: 3,
          change: 'open',
          hooks: { delays: [607, 105_349], again: true },
        },
      ],
    },
  },
  {
    why: 'after the clock was set back by less than an hour a fetch waited until the old time had come again',
    plan: {
      ...{ ...ALONE, seed: 41_335, replicas: 3, forges: ['gitlab'], trackers: [], events: true, length: 4_860_000 },
      happenings: [
        { at: 3_425_725, do: 'weather', server: 'gitlab.test', trouble: 'revoked', share: 1, for: 1_080_000 },
        {
          ...{ at: 3_862_424, do: 'pull', forge: 'gitlab', number: 3, change: { state: 'open', draft: true } },
          hooks: { delays: [221], again: false },
        },
        {
          ...{ at: 3_862_445, do: 'pull', forge: 'gitlab', number: 3, change: { names: 0, reviewers: [] } },
          hooks: { delays: [1_217], again: true },
        },
        { at: 4_056_822, do: 'jump-store', by: -3_384_946 },
      ],
    },
  },
  {
    why: 'after a repository was renamed nobody saw that a person took a link away that was made before',
    plan: {
      ...{ ...ALONE, seed: 43_465, trackers: [], events: false, length: 1_440_000 },
      happenings: [
        { at: 621_425, do: 'task' },
        {
          ...{ at: 724_713, do: 'pull', forge: 'github', number: 8, change: { names: 1, state: 'open' } },
          hooks: { delays: [103], again: true },
        },
        { at: 1_287_656, do: 'unlink', pick: 0 },
        { at: 1_338_497, do: 'rename', name: 'acme/web' },
      ],
    },
  },
  {
    why: 'a comment was still on its way when its process lost the workspace, and the next one, which found none, wrote another',
    plan: {
      ...{ seed: 44_073, replicas: 3, forges: ['gitlab', 'github'], trackers: ['generic', 'jira'] },
      ...{ share: 'auto', events: false, writeBack: true, length: 5_400_000 },
      happenings: [
        {
          at: 81_511,
          do: 'issue',
          tracker: 'jira',
          number: 1,
          change: 'open',
          hooks: { delays: [201_033], again: false },
        },
        {
          at: 107_738,
          do: 'pull',
          forge: 'gitlab',
          number: 1,
          change: { state: 'open', prose: { kind: 9, task: 4, other: 5, item: 2 } },
          hooks: { delays: [1_652], again: true },
        },
        {
          at: 108_331,
          do: 'pull',
          forge: 'gitlab',
          number: 1,
          change: { names: 0, state: 'merged', draft: true, labels: [], description: 'Words.' },
          hooks: { delays: [1_123], again: true },
        },
        { at: 110_780, do: 'sleep-owner', back: 8_818 },
      ],
    },
  },
  {
    why: 'an event of a link that was removed since came late, and the link that was made anew could not be removed any more',
    plan: {
      seed: 81345,
      replicas: 1,
      forges: ['gitlab', 'github'],
      trackers: [],
      share: 1,
      events: true,
      writeBack: false,
      length: 3780000,
      happenings: [
        { at: 1028761, do: 'fail-statements', share: 0.16898798951879143, for: 1680000 },
        {
          at: 1153596,
          do: 'pull',
          forge: 'gitlab',
          number: 1,
          change: { names: 0, labels: ['bug'], description: 'Words.', prose: { kind: 9, task: 7, other: 4, item: 3 } },
          hooks: { delays: [432944], again: false },
        },
        {
          at: 1528056,
          do: 'pull',
          forge: 'github',
          number: 3,
          change: { names: 5, prose: { kind: 9, task: 8, other: 5, item: 3 } },
          hooks: { delays: [1499], again: true },
        },
        { at: 1529404, do: 'task' },
        {
          at: 1959482,
          do: 'pull',
          forge: 'github',
          number: 3,
          change: { names: 4, reviewers: [], description: '', prose: { kind: 13, task: 8, other: 8, item: 7 } },
          hooks: { delays: [896], again: false },
        },
        { at: 1960838, do: 'restart', replica: 0, back: 2788 },
      ],
    },
  },
  {
    why: 'a process slept between looking for its comment and posting it, and posted it beside the one of the process that had taken over',
    plan: {
      seed: 300241,
      replicas: 3,
      forges: ['bitbucket', 'github', 'gitlab'],
      trackers: ['jira'],
      share: 1,
      events: true,
      writeBack: true,
      length: 3060000,
      happenings: [
        { at: 695571, do: 'issue', tracker: 'jira', number: 2, change: 'open', hooks: { delays: [862], again: false } },
        { at: 703368, do: 'sleep', replica: 2, back: 131204 },
      ],
      pages: 10,
      grain: 250,
    },
  },
  {
    why: 'the database took what was to be sent, its answer got lost, and the change waited for an answer to a request that nobody had sent',
    plan: {
      seed: 300577,
      replicas: 3,
      forges: ['bitbucket', 'github', 'gitlab'],
      trackers: ['linear', 'generic', 'jira'],
      share: 1,
      events: false,
      writeBack: true,
      length: 4380000,
      happenings: [
        { at: 164128, do: 'task' },
        {
          at: 223536,
          do: 'issue',
          tracker: 'generic',
          number: 4,
          change: 'open',
          hooks: { delays: [140698], again: false },
        },
        {
          at: 1460651,
          do: 'issue',
          tracker: 'generic',
          number: 2,
          change: 'open',
          hooks: { delays: [408], again: false },
        },
        { at: 1615860, do: 'store-away', share: 0.3234322374733165, for: 52000 },
        {
          at: 1635737,
          do: 'pull',
          forge: 'bitbucket',
          number: 10,
          change: { names: 8, draft: true, labels: ['api', 'bug'], prose: { kind: 0, task: 8, other: 8, item: 5 } },
          hooks: { delays: [281], again: true },
        },
        { at: 1698416, do: 'task' },
        { at: 1712475, do: 'issue', tracker: 'linear', number: 5, change: 'open', hooks: { delays: [], again: true } },
        { at: 3106288, do: 'sleep', replica: 2, back: 5214 },
        { at: 3110434, do: 'edit-record', pick: 54 },
        {
          at: 3166934,
          do: 'pull',
          forge: 'gitlab',
          number: 5,
          change: { names: 8 },
          hooks: { delays: [1367], again: false },
        },
        {
          at: 3167596,
          do: 'pull',
          forge: 'gitlab',
          number: 5,
          change: { names: 0, labels: [], prose: { kind: 13, task: 1, other: 8, item: 4 } },
          hooks: { delays: [], again: true },
        },
        {
          at: 3581864,
          do: 'pull',
          forge: 'gitlab',
          number: 5,
          change: { names: 4, reviewers: ['ben'], prose: { kind: 0, task: 3, other: 2, item: 1 } },
          hooks: { delays: [1421], again: true },
        },
        { at: 3625676, do: 'backfill', forge: 'github', pulls: 19 },
        { at: 3901105, do: 'sleep', replica: 2, back: 6242 },
        {
          at: 4097653,
          do: 'pull',
          forge: 'gitlab',
          number: 7,
          change: { names: 5, state: 'open', draft: false },
          hooks: { delays: [100946], again: true },
        },
        { at: 4123414, do: 'task' },
        { at: 4279942, do: 'store-away', share: 0.09633440149948001, for: 89000 },
        { at: 4294411, do: 'task' },
      ],
      pages: 4,
    },
  },
];
