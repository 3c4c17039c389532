import type { Forge, Happening, Hooks, Plan, PullChange, TrackerName } from './plan.ts';

/**
 * Failures that the simulation found, shrunk, and their causes. Each plan is complete, because what a seed
 * draws changes with each change of what is drawn.
 */
export interface Kept {
  readonly why: string;
  readonly plan: Plan;
}

const again = (...delays: readonly number[]): Hooks => ({ delays, again: true });
const once = (...delays: readonly number[]): Hooks => ({ delays, again: false });

function pull(at: number, forge: Forge, number: number, change: PullChange, hooks: Hooks): Happening {
  return { at, do: 'pull', forge, number, change, hooks };
}

type IssueChange = Extract<Happening, { do: 'issue' }>['change'];

function issue(at: number, tracker: TrackerName, number: number, change: IssueChange, hooks: Hooks): Happening {
  return { at, do: 'issue', tracker, number, change, hooks };
}

const ALONE = { replicas: 1, forges: ['github'], trackers: ['linear'], share: 1, length: 3_600_000 } as const;

function kept(why: string, plan: Omit<Plan, 'happenings'>, ...happenings: readonly Happening[]): Kept {
  return { why, plan: { ...plan, happenings } };
}

export const KEPT: readonly Kept[] = [
  kept(
    'while our clock was behind, a late webhook of the same second replaced what a poll had found',
    { ...ALONE, forges: ['gitlab'], seed: 20_018 },
    { at: 425_502, do: 'jump', replica: 0, by: -4_445_673 },
    pull(1_534_859, 'gitlab', 6, { state: 'closed' }, again(463_206)),
    pull(1_534_935, 'gitlab', 6, { description: 'Words.' }, again()),
  ),
  kept(
    'after the clock was set back newer states were dropped as older than what was held',
    { ...ALONE, seed: 37 },
    pull(1_286_904, 'github', 7, {}, again(870)),
    { at: 1_584_208, do: 'jump', replica: 0, by: -4_619_187 },
    pull(1_616_951, 'github', 7, { names: 4 }, again(586)),
  ),
  kept(
    'after a restore the daemon wrote before it had read, and created a task twice',
    { ...ALONE, forges: ['github', 'bitbucket', 'gitlab'], share: 0.8, length: 3_240_000, seed: 34 },
    { at: 329_791, do: 'backup' },
    pull(406_159, 'github', 9, { names: 5, state: 'merged', labels: ['api', 'bug'], description: '' }, once(83_853)),
    issue(1_650_383, 'linear', 1, 'edited', once()),
    { at: 1_797_060, do: 'restore', back: 1_000 },
  ),
  kept(
    'where the clock was set back to before triage began, new items got no task',
    { ...ALONE, seed: 14 },
    { at: 842_166, do: 'jump', replica: 0, by: -6_127_312 },
    issue(2_379_641, 'linear', 1, 'open', again(452)),
  ),
  kept(
    'while the clock was behind, a delivery that came late overwrote newer states for good',
    { ...ALONE, seed: 188, forges: ['gitlab'], trackers: ['jira', 'linear'], length: 2_580_000 },
    issue(271_946, 'linear', 2, 'open', again(1_267)),
    { at: 468_039, do: 'jump', replica: 0, by: -6_978_787 },
    pull(1_081_108, 'gitlab', 1, { state: 'merged', draft: true, labels: ['bug'], reviewers: [] }, once(298_902)),
    pull(1_119_478, 'gitlab', 1, { names: 1 }, again()),
  ),
  kept(
    'a workspace that could not be opened while the database was away was owned by a process that never tried again',
    {
      ...ALONE,
      seed: 129,
      replicas: 3,
      forges: ['gitlab', 'bitbucket'],
      trackers: ['jira', 'generic', 'linear'],
      share: 0.8,
      length: 1_380_000,
    },
    pull(743_012, 'gitlab', 1, { names: 2, draft: false }, again(1_713)),
    { at: 762_940, do: 'store-away', share: 0.40365840297657996, for: 55_000 },
  ),
  kept(
    'leases that were taken by a commit whose answer was lost were held by a process that did not know of them',
    {
      ...ALONE,
      seed: 23,
      replicas: 3,
      forges: ['bitbucket'],
      trackers: ['linear', 'generic'],
      events: true,
      writeBack: false,
      length: 2_280_000,
    },
    { at: 593_978, do: 'task' },
    { at: 686_428, do: 'task' },
    { at: 790_962, do: 'store-away', share: 0.30867860044818374, for: 113_000 },
    pull(
      795_026,
      'bitbucket',
      2,
      { names: 0, labels: ['bug'], prose: { kind: 11, task: 2, other: 6, item: 6 } },
      again(945),
    ),
    pull(825_900, 'bitbucket', 3, { prose: { kind: 4, task: 2, other: 1, item: 6 } }, again(1_848)),
    { at: 890_573, do: 'task' },
  ),
  kept(
    'after the clock was set back what people changed by hand was not repaired until the old time had come again',
    { ...ALONE, length: 1_200_000, seed: 5_116 },
    pull(60_000, 'github', 1, {}, again(500)),
    { at: 300_000, do: 'jump', replica: 0, by: -7_000_000 },
    { at: 310_000, do: 'jump', replica: 0, by: -7_000_000 },
    { at: 400_000, do: 'edit-record', pick: 0 },
  ),
  kept(
    'a comment was looked for, and then posted though the vendor had told a poll meanwhile how long to leave it alone',
    {
      ...ALONE,
      seed: 42_400,
      forges: ['bitbucket', 'gitlab'],
      trackers: ['generic', 'jira'],
      share: 'auto',
      events: false,
      writeBack: true,
      length: 2_520_000,
    },
    pull(
      547_926,
      'gitlab',
      3,
      {
        labels: ['api', 'bug'],
        reviewers: ['ben'],
        description: 'Other words.',
        prose: { kind: 12, task: 5, other: 5, item: 3 },
      },
      once(969, 287_735),
    ),
    { at: 550_098, do: 'weather', server: 'jira.test', trouble: 'limited', share: 0.5608884731307626, for: 1_140_000 },
    pull(558_176, 'gitlab', 3, {}, again(281_493)),
    {
      at: 1_043_957,
      do: 'weather',
      server: 'workspace.test',
      trouble: 'lost-before',
      share: 0.18857651203870773,
      for: 171_000,
    },
    issue(1_242_237, 'jira', 3, 'open', again(607, 105_349)),
  ),
  kept(
    'after the clock was set back by less than an hour a fetch waited until the old time had come again',
    { ...ALONE, replicas: 3, forges: ['gitlab'], trackers: [], length: 4_860_000, seed: 41_335, events: true },
    { at: 3_425_725, do: 'weather', server: 'gitlab.test', trouble: 'revoked', share: 1, for: 1_080_000 },
    pull(3_862_424, 'gitlab', 3, { state: 'open', draft: true }, once(221)),
    pull(3_862_445, 'gitlab', 3, { names: 0, reviewers: [] }, again(1_217)),
    { at: 4_056_822, do: 'jump-store', by: -3_384_946 },
  ),
  kept(
    'after a repository was renamed nobody saw that a person took a link away that was made before',
    { ...ALONE, trackers: [], length: 1_440_000, seed: 43_465, events: false },
    { at: 621_425, do: 'task' },
    pull(724_713, 'github', 8, { names: 1, state: 'open' }, again(103)),
    { at: 1_287_656, do: 'unlink', pick: 0 },
    { at: 1_338_497, do: 'rename', name: 'acme/web' },
  ),
  kept(
    'a comment was still on its way when its process lost the workspace, and the next one, which found none, wrote another',
    {
      ...ALONE,
      seed: 44_073,
      replicas: 3,
      forges: ['gitlab', 'github'],
      trackers: ['generic', 'jira'],
      share: 'auto',
      events: false,
      writeBack: true,
      length: 5_400_000,
    },
    issue(81_511, 'jira', 1, 'open', once(201_033)),
    pull(107_738, 'gitlab', 1, { state: 'open', prose: { kind: 9, task: 4, other: 5, item: 2 } }, again(1_652)),
    pull(
      108_331,
      'gitlab',
      1,
      { names: 0, state: 'merged', draft: true, labels: [], description: 'Words.' },
      again(1_123),
    ),
    { at: 110_780, do: 'sleep-owner', back: 8_818 },
  ),
  kept(
    'an event of a link that was removed since came late, and the link that was made anew could not be removed any more',
    {
      ...ALONE,
      seed: 81_345,
      forges: ['gitlab', 'github'],
      trackers: [],
      events: true,
      writeBack: false,
      length: 3_780_000,
    },
    { at: 1_028_761, do: 'fail-statements', share: 0.16898798951879143, for: 1_680_000 },
    pull(
      1_153_596,
      'gitlab',
      1,
      { names: 0, labels: ['bug'], description: 'Words.', prose: { kind: 9, task: 7, other: 4, item: 3 } },
      once(432_944),
    ),
    pull(1_528_056, 'github', 3, { names: 5, prose: { kind: 9, task: 8, other: 5, item: 3 } }, again(1_499)),
    { at: 1_529_404, do: 'task' },
    pull(
      1_959_482,
      'github',
      3,
      { names: 4, reviewers: [], description: '', prose: { kind: 13, task: 8, other: 8, item: 7 } },
      once(896),
    ),
    { at: 1_960_838, do: 'restart', replica: 0, back: 2_788 },
  ),
  kept(
    'a process slept between looking for its comment and posting it, and posted it beside the one of the process that had taken over',
    {
      ...ALONE,
      seed: 300_241,
      replicas: 3,
      forges: ['bitbucket', 'github', 'gitlab'],
      trackers: ['jira'],
      events: true,
      writeBack: true,
      length: 3_060_000,
      pages: 10,
      grain: 250,
    },
    issue(695_571, 'jira', 2, 'open', once(862)),
    { at: 703_368, do: 'sleep', replica: 2, back: 131_204 },
  ),
  kept(
    'the database took what was to be sent, its answer got lost, and the change waited for an answer to a request that nobody had sent',
    {
      ...ALONE,
      seed: 300_577,
      replicas: 3,
      forges: ['bitbucket', 'github', 'gitlab'],
      trackers: ['linear', 'generic', 'jira'],
      events: false,
      writeBack: true,
      length: 4_380_000,
      pages: 4,
    },
    { at: 164_128, do: 'task' },
    issue(223_536, 'generic', 4, 'open', once(140_698)),
    issue(1_460_651, 'generic', 2, 'open', once(408)),
    { at: 1_615_860, do: 'store-away', share: 0.3234322374733165, for: 52_000 },
    pull(
      1_635_737,
      'bitbucket',
      10,
      { names: 8, draft: true, labels: ['api', 'bug'], prose: { kind: 0, task: 8, other: 8, item: 5 } },
      again(281),
    ),
    { at: 1_698_416, do: 'task' },
    issue(1_712_475, 'linear', 5, 'open', again()),
    { at: 3_106_288, do: 'sleep', replica: 2, back: 5_214 },
    { at: 3_110_434, do: 'edit-record', pick: 54 },
    pull(3_166_934, 'gitlab', 5, { names: 8 }, once(1_367)),
    pull(3_167_596, 'gitlab', 5, { names: 0, labels: [], prose: { kind: 13, task: 1, other: 8, item: 4 } }, again()),
    pull(
      3_581_864,
      'gitlab',
      5,
      { names: 4, reviewers: ['ben'], prose: { kind: 0, task: 3, other: 2, item: 1 } },
      again(1_421),
    ),
    { at: 3_625_676, do: 'backfill', forge: 'github', pulls: 19 },
    { at: 3_901_105, do: 'sleep', replica: 2, back: 6_242 },
    pull(4_097_653, 'gitlab', 7, { names: 5, state: 'open', draft: false }, again(100_946)),
    { at: 4_123_414, do: 'task' },
    { at: 4_279_942, do: 'store-away', share: 0.09633440149948001, for: 89_000 },
    { at: 4_294_411, do: 'task' },
  ),
  kept(
    'a change that was held while the clock was set back was released, and then waited until the old time had come again',
    {
      ...ALONE,
      seed: 7_533,
      forges: ['bitbucket', 'gitlab'],
      trackers: ['linear', 'jira'],
      share: 'auto',
      events: true,
      writeBack: false,
      length: 4_020_000,
    },
    { at: 2_021_056, do: 'restart', replica: 0, back: 19_383 },
    pull(2_039_482, 'bitbucket', 9, { names: 3 }, once(1_213, 85_229)),
    { at: 2_042_549, do: 'kill', replica: 0, steps: 15, back: 4_201, reboot: false },
    pull(2_063_558, 'gitlab', 2, { names: 0, prose: { kind: 7, task: 7, other: 1, item: 7 } }, again(1_554, 294_956)),
    {
      at: 2_197_713,
      do: 'weather',
      server: 'workspace.test',
      trouble: 'late',
      share: 0.6611769488081336,
      for: 660_000,
    },
    pull(
      2_241_892,
      'gitlab',
      2,
      { reviewers: ['ada', 'ben'], prose: { kind: 16, task: 5, other: 1, item: 1 } },
      again(1_467),
    ),
    pull(2_505_010, 'bitbucket', 1, { draft: false, labels: ['api', 'bug'] }, again(480)),
    pull(
      2_547_052,
      'bitbucket',
      3,
      { draft: false, reviewers: ['ben'], prose: { kind: 14, task: 6, other: 8, item: 2 } },
      again(905),
    ),
    pull(
      2_547_066,
      'bitbucket',
      3,
      { names: 5, state: 'closed', prose: { kind: 12, task: 2, other: 1, item: 6 } },
      again(508_341, 784_822),
    ),
    { at: 2_772_195, do: 'jump', replica: 0, by: -6_882_025 },
    { at: 3_287_984, do: 'jump', replica: 0, by: -2_616_304 },
  ),
];
