import type { Claim } from './support/proofs.ts';

export interface Acceptance extends Claim {
  readonly promise: string;
}

/**
 * What worksync promises the people who run it, each with what proves it. `test/acceptance.md` is made from this list, and
 * `test/project/acceptance.test.ts` holds it: each test that is named here exists.
 */
export const ACCEPTANCE: readonly Acceptance[] = [
  {
    id: 'U1',
    promise: 'Five minutes from the first look to the first synced pull request; `init` writes what is needed',
    proofs: [
      ['test/scenarios/init.test.ts', '%s: what it writes is valid once its variables are set'],
      ['test/scenarios/init.test.ts', 'asks for what no flag says, and takes the standard answer for none'],
      ['test/deep/examples.test.ts', '%s starts as it is, once its variables are set'],
      ['test/scenarios/cli.test.ts', 'plays the whole story inside its budget, and ends with one JSON line'],
    ],
    left: 'the installation is timed by hand only: 39 s on a busy machine, and 4 s more until the demo is told',
  },
  {
    id: 'U2',
    promise: 'Each error of a configuration at once, with file, line, column, and the key that was meant',
    proofs: [
      ['test/unit/platform/config/load.test.ts', 'all of them at once, over all files, with places and suggestions'],
      ['test/faults/daemon.test.ts', 'for a wrong configuration ends with 78 and names every place'],
    ],
  },
  {
    id: 'U3',
    promise: 'A JSON Schema that fits every example',
    proofs: [['test/unit/platform/config/generated-files.test.ts', 'the JSON Schema'], ['config/schema.json']],
  },
  {
    id: 'U4',
    promise: 'Variables in the configuration, secrets from variables and files',
    proofs: [
      ['test/unit/platform/config/interpolate.test.ts', 'what a text becomes'],
      ['test/unit/platform/config/interpolate.test.ts', 'values from files'],
      ['test/unit/platform/config/load.test.ts', 'from files are secrets, and their files are known'],
      ['test/unit/platform/config/load.test.ts', 'a value from a variable is never shown'],
    ],
  },
  {
    id: 'U5',
    promise: 'Flag before environment before file before default; each value in use with its origin, no secret',
    proofs: [
      [
        'test/unit/platform/config/daemon-options.test.ts',
        'flag before environment before default; an empty variable is not set',
      ],
      ['test/scenarios/config-show.test.ts', 'names the origin of each value, and shows no secret'],
      ['test/unit/web/pages/pages.test.ts', 'shows each value with its origin, and no secret'],
    ],
  },
  {
    id: 'U6',
    promise: 'Commands for everything that an operator does',
    proofs: [
      ['test/project/pages.test.ts', 'have a row for each command, and name no other'],
      ['test/unit/cli/commands.test.ts', 'explains itself, with an example that begins as it does'],
      ['test/unit/cli/commands.test.ts', 'prints JSON for programs'],
      [
        'test/scenarios/changes.test.ts',
        'lists what waits, with the name of the item, and shows what is to stand there',
      ],
      [
        'test/scenarios/trace.test.ts',
        'tells what a delivery said, what was decided, what was sent for it, and what was answered',
      ],
      [
        'test/scenarios/listen.test.ts',
        'tells what comes from now on, and again when it is judged; own answers only when asked for',
      ],
      ['test/scenarios/trigger.test.ts', 'of a git provider becomes a record, which the next sample merges'],
      ['test/contracts/connectors.test.ts', '%s is signed as the vendor signs, and in scope'],
    ],
  },
  {
    id: 'U7',
    promise: '`check` finds what is wrong outside, and says how to mend it',
    proofs: [
      ['test/scenarios/cli.test.ts', 'check names what is right and what is wrong, with a remedy'],
      [
        'test/scenarios/cli.test.ts',
        'check --offline looks at the configuration alone: no data folder, no request, nobody waited for',
      ],
      ['test/scenarios/check.test.ts', 'tells of clock, quota, deliveries, database, disk and version'],
      ['test/scenarios/check.test.ts', 'whose clock is wrong says by how much, with a remedy'],
      ['test/scenarios/check.test.ts', 'whose database is damaged says so'],
      ['test/scenarios/check.test.ts', '%s is told beside everything else, and ends with %i'],
      ['test/unit/admin/check-facts.test.ts', 'show by a refusal of the last hour'],
      ['test/unit/admin/check-facts.test.ts', 'is paused'],
      ['test/unit/platform/http/unreachable-hint.test.ts', '%s has a remedy of its own'],
      ['test/unit/connectors/github/api.test.ts', 'says when a token ends where GitHub tells it: %s'],
    ],
  },
  {
    id: 'U8',
    promise: 'Exit codes say how a command ended',
    proofs: [
      ['test/project/pages.test.ts', 'explain every exit code that the registry of errors knows'],
      ['test/scenarios/cli.test.ts', 'once drains and ends with 0; with 3, and the reason, where nothing gets through'],
      ['test/scenarios/wait.test.ts', 'ends with 75 where the time is over'],
      ['test/faults/daemon.test.ts', 'ends at once with 75 and says why; the first one goes on'],
    ],
  },
  {
    id: 'U9',
    promise: '`/livez` and `/readyz` for everybody, with names of components and reasons only',
    proofs: [
      ['test/unit/web/page-routes.test.ts', '/livez is 200 and says nothing'],
      ['test/unit/web/page-routes.test.ts', '/readyz is 503 with names and reason codes until all is well'],
    ],
  },
  {
    id: 'U10',
    promise: 'Metrics with prefix, base units, and few series',
    proofs: [
      [
        'test/unit/platform/observe/metrics.test.ts',
        'every name has the prefix and a base unit, and every metric a help text',
      ],
      ['test/unit/platform/observe/metrics.test.ts', 'stays under 500 series with one busy workspace'],
    ],
  },
  {
    id: 'U11',
    promise: 'A dashboard and alerts whose metrics all exist',
    proofs: [
      ['test/project/alerts.test.ts', 'every metric exists, with each label and each value that is named'],
      [
        'test/project/alerts.test.ts',
        'each alert says how urgent it is and leads to its own runbook, which names a command',
      ],
      ['config/deploy/grafana-dashboard.json'],
      ['config/deploy/alerts.yaml'],
    ],
  },
  {
    id: 'U12',
    promise: 'A log that tells a case from its receipt to its request, for people on a terminal',
    proofs: [
      ['test/scenarios/support-case.test.ts', 'one delivery, from its receipt to the answers of its requests'],
      [
        'test/unit/platform/observe/pino-logger.test.ts',
        'is one line of JSON with level, time, fields of all parents, and message',
      ],
      ['test/unit/platform/observe/merged-repeats.test.ts'],
      ['test/unit/platform/observe/pretty-line.test.ts'],
      [
        'test/scenarios/cli.test.ts',
        'writes its log to standard error, one JSON object per line, and its data for this user alone',
      ],
    ],
  },
  {
    id: 'U13',
    promise: 'Traces over OTLP, from a delivery to its request',
    proofs: [
      ['test/scenarios/otlp.test.ts', 'a webhook, its decision and its requests are one trace'],
      ['test/scenarios/otlp.test.ts', 'the trace goes on in the process that is started after a kill'],
      ['test/scenarios/otlp.test.ts', 'a collector that is away costs one warning and counted spans, and no delivery'],
      ['test/scenarios/otlp.test.ts', 'nothing is exported unless it is asked for'],
    ],
  },
  {
    id: 'U14',
    promise: 'Signals end the daemon in order, or at once; a reload that is wrong leaves the last good configuration',
    proofs: [
      [
        'test/faults/daemon.test.ts',
        'under load ends with 0, readiness first, and loses nothing that was acknowledged',
      ],
      [
        'test/faults/daemon.test.ts',
        'a second one ends at once, with the code that shells know, however long the end takes',
      ],
      ['test/scenarios/reload.test.ts', 'keeps the last good state where a file is wrong, and says so'],
      ['test/unit/web/pages/pages.test.ts', 'says on the overview that the last one is not in use'],
    ],
  },
  {
    id: 'U15',
    promise: 'A backfill says how long it takes, goes on after a kill, pauses, and never keeps live work waiting',
    proofs: [
      ['test/scenarios/backfill.test.ts', 'goes on after the end of the process at any page, and stores none twice'],
      [
        'test/scenarios/backfill.test.ts',
        'reads no page while somebody has paused it, not even after a restart, and goes on when it is resumed',
      ],
      [
        'test/scenarios/backfill.test.ts',
        'is sent last, whatever came first; a live event of the same item takes it along; no guard holds it',
      ],
      [
        'test/deep/backfill-command.test.ts',
        'pauses, says so to everybody who follows it, and goes on when it is resumed',
      ],
    ],
  },
  {
    id: 'U16',
    promise: 'Pages for every question, for keyboard, both themes and small windows, live, small and quick',
    proofs: [
      ['test/browser/pages.test.ts', '%s has no fault that axe finds, keeps to the window, and asks nobody else'],
      ['test/browser/pages.test.ts', 'a person finds what needs approval, looks at it, and releases it'],
      ['test/browser/pages.test.ts', 'shows what has changed, and keeps the focus'],
      ['test/unit/web/pages/pages.test.ts', 'take less than 100 kB of a network'],
      ['test/unit/web/pages/pages.test.ts', 'can be undone for ten seconds, and is done then'],
      ['test/bench/deep/pages.ts'],
    ],
  },
  {
    id: 'U18',
    promise: 'An image without rights, small above its base',
    proofs: [
      ['test/project/image.test.ts', 'is built on one base that a build pins, and runs as no root'],
      ['test/deep/image.test.ts', 'is small above its base'],
      [
        'test/project/deploy.test.ts',
        'the Kubernetes manifests run the image as it is meant: one replica, its user, no rights',
      ],
    ],
    left: 'builds for both architectures, with SBOM and provenance, are a recipe that no test runs',
  },
  {
    id: 'U19',
    promise: 'The daemon beside a CI job, configured by variables, with its data in memory',
    proofs: [
      [
        'test/faults/start.test.ts',
        'is found by commands of the same variables, stores deliveries, and leaves nothing',
      ],
      [
        'test/scenarios/wait.test.ts',
        'waits for a daemon that starts later, until everything is synced, and says for what',
      ],
      ['test/scenarios/ci.test.ts', 'with --require a pull request without a task fails, and says what to write where'],
      ['config/deploy/github-actions.yaml'],
      ['config/deploy/gitlab-ci.yaml'],
      ['config/deploy/bitbucket-pipelines.yaml'],
    ],
  },
  {
    id: 'U20',
    promise: 'A page for each connector and each error code, on the daemon itself',
    proofs: [
      ['test/unit/web/help.test.ts', 'has a page for each connector, and those that operators need'],
      ['test/unit/web/help.test.ts', 'has an anchor for each error code'],
      ['test/unit/web/help.test.ts', 'links to pages that it serves, and to anchors that they have, each anchor once'],
      ['.github/SECURITY.md'],
    ],
  },
];
