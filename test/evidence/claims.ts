import type { Claim } from '../support/proofs.ts';

/** What may go wrong, or what somebody may try, and what then holds. */
export interface Resistance extends Claim {
  readonly what: string;
  readonly holds: string;
}

/** Faults of machines, networks, vendors and of ours. */
export const FAULTS: readonly Resistance[] = [
  {
    id: 'F1',
    what: 'the process is killed at any step',
    holds: 'nothing acknowledged is lost, nothing is doubled, both windows of the quota hold',
    proofs: [
      ['test/deep/sim.test.ts', 'finds no fault again that it found before'],
      [
        'test/faults/crash.test.ts',
        'is numbered at every commit and every request, as counted at the database and at the service',
      ],
      ['test/faults/crash.test.ts', 'at any step loses nothing, doubles nothing and keeps both windows, part %d'],
      [
        'test/faults/service.test.ts',
        '50 clients, kill -9 in the middle of a quota of %d: all acknowledged is there, all sent is counted',
      ],
    ],
  },
  {
    id: 'F2',
    what: 'power fails, and what was not synced is gone',
    holds: 'nothing acknowledged is lost',
    proofs: [
      ['test/unit/platform/database/sqlite.test.ts', 'is durable: every commit is synced, in WAL mode'],
      [
        'test/power/daemon.test.ts',
        'each disk that may be left has what was acknowledged, and all requests that count',
      ],
      ['test/power/daemon.test.ts', 'would find what is lost if nothing were synchronised'],
      ['test/power/daemon.test.ts', 'the next daemon loses nothing, doubles nothing and keeps both windows'],
    ],
  },
  {
    id: 'F3',
    what: 'the disk is full, fails, or may only be read',
    holds: '503 before any acknowledgement; work goes on by itself within five seconds of the space',
    proofs: [
      [
        'test/faults/intake.test.ts',
        'is answered 503 before any acknowledgement, loses nothing, and work resumes by itself',
      ],
      [
        'test/faults/databases.test.ts',
        'makes the process not ready, and ready again by itself within five seconds of the space',
      ],
      [
        'test/faults/daemon.test.ts',
        'under the whole daemon: refused before any acknowledgement, nothing sent unrecorded, resumed by itself',
      ],
      ['test/faults/start.test.ts', 'ends with 75, also with %d bytes left'],
      ['test/faults/start.test.ts', '%s: ends with 78 and names it'],
    ],
  },
  {
    id: 'F4',
    what: 'somebody else reads or locks the database for long',
    holds:
      'a reader or a backup reaches nobody with an error; the log stays within 64 MiB, or status says who keeps it from that until the reader ends; a lock is waited for, then it is 503 before any acknowledgement, and no request stands still meanwhile',
    proofs: [
      [
        'test/faults/other-programs.test.ts',
        'and a backup beside it are noticed by nobody, and the log is taken over when it ends',
      ],
      [
        'test/faults/other-programs.test.ts',
        'is told with a remedy when the log has grown over its limit; after its end the log is emptied by itself',
      ],
      [
        'test/faults/other-programs.test.ts',
        'for a moment is waited for: the delivery is taken, and all else goes on meanwhile',
      ],
      [
        'test/faults/other-programs.test.ts',
        'for long gets every delivery 503 before any acknowledgement, with the cause and a remedy, and is over by itself',
      ],
      [
        'test/unit/platform/database/sqlite.test.ts',
        'stays within 64 MiB, unless another program reads on and on; after that it is emptied without a commit',
      ],
      ['test/unit/platform/database/sqlite.test.ts', 'of a file that others write to on and on comes to its end'],
      ['test/unit/admin/data.test.ts', 'is a sound copy that nobody else may read, made beside a running daemon'],
      ['test/soak/main.ts'],
    ],
  },
  {
    id: 'F5',
    what: 'the clock jumps, by hours or days',
    holds: 'both windows hold, nothing stands still for more than a window, nothing that is planned is lost',
    proofs: [
      [
        'test/scenarios/quota.test.ts',
        'with the wall clock set a day %s in the middle: none is refused, nothing stands still',
      ],
      ['test/scenarios/quota.test.ts', 'with the wall clock set back a day just before they are due'],
      ['test/deep/quota-policy.test.ts', 'goes on at its rate while the wall clock jumps and requests arrive late'],
      [
        'test/deep/schedule.test.ts',
        'a clock that is set while nothing runs costs at most one interval more each time, and takes none away for good',
      ],
      ['test/unit/platform/lib/scheduler.test.ts', 'is kept though the wall clock was set %s'],
    ],
  },
  {
    id: 'F6',
    what: 'a delivery comes a hundred times, also at once',
    holds: 'one row, one effect',
    proofs: [
      ['test/scenarios/intake.test.ts', '100 times at once is one row, and all are acknowledged'],
      [
        'test/scenarios/order.test.ts',
        'a hundred times, at once and one after another, before and after a restart, has one effect',
      ],
    ],
  },
  {
    id: 'F7',
    what: 'deliveries come late and in any order',
    holds: "the end is the provider's state, and no field ever moves backwards",
    proofs: [
      [
        'test/scenarios/order.test.ts',
        'in every order, while nothing is sent, end in the provider’s state with one write each',
      ],
      ['test/laws/items.test.ts', 'any order and any repetition end in the newest value of each field'],
      [
        'test/laws/items.test.ts',
        'at every moment each field is the newest value delivered so far: nothing moves backwards',
      ],
      [
        'test/laws/provider-order.test.ts',
        'ends in the state of the provider, in any order, with any repetition, with polls between',
      ],
    ],
  },
  {
    id: 'F8',
    what: 'the workspace answers 429, or others use its quota',
    holds: 'one pause for all, kept over restarts; then one request at a time; what is really left is used',
    proofs: [
      ['test/scenarios/trouble.test.ts', 'is waited for as long as the refusal says'],
      [
        'test/scenarios/trouble.test.ts',
        'without a usable word of how long is asked ever more seldom, one request at a time',
      ],
      [
        'test/unit/sync/quota/cooldown.test.ts',
        'keeps the pause and the reduced share across a restart, a reboot and a jump of the wall clock',
      ],
      [
        'test/laws/quota.test.ts',
        'no window at the server holds more than its cap, the background keeps to its share, and everything is sent',
      ],
      [
        'test/deep/quota-policy.test.ts',
        'is noticed on the first day; on the second it waits little, and each refusal of ours comes alone',
      ],
    ],
  },
  {
    id: 'F9',
    what: 'a request is applied, and its answer is lost',
    holds: 'it is looked up before it is sent again: nothing is doubled',
    proofs: [
      [
        'test/scenarios/trouble.test.ts',
        'although they were made: one list, asked for when it can prove it, settles both',
      ],
      ['test/scenarios/trouble.test.ts', 'and they were not made: after one list both are sent again'],
      ['test/scenarios/trouble.test.ts', 'one of them made, one not, and the daemon ended meanwhile: none is doubled'],
      ['test/scenarios/trouble.test.ts', '%s doubles nothing and loses nothing'],
      ['test/laws/convergence.test.ts', 'the workspace holds what it should'],
    ],
  },
  {
    id: 'F10',
    what: 'answers are 5xx, cut off, too large, or no JSON',
    holds:
      'nothing is taken for done or refused; asked at most once in 30 seconds, and all arrives within a minute of the end',
    proofs: [
      ['test/scenarios/trouble.test.ts', '%s: nothing is taken for done or refused, and all arrives when it is over'],
      [
        'test/scenarios/trouble.test.ts',
        'for as long as a day is asked at most once in 30 seconds, and everything arrives in the end',
      ],
      ['test/faults/http.test.ts', 'a body that stops in the middle'],
      ['test/faults/http.test.ts', 'cuts an answer that is too large, whether or not it names its length'],
      ['test/faults/http.test.ts', 'returns an HTML error page as it is'],
      ['test/contracts/answers.test.ts', 'and nothing but a SyncError comes of answers that are not what was promised'],
    ],
  },
  {
    id: 'F11',
    what: 'senders dribble, or hold a thousand connections idle',
    holds: '408 within the time-out and half a second; good deliveries get through meanwhile',
    proofs: [
      [
        'test/faults/http.test.ts',
        'answers 408 to a slow-loris, in the head or in the body, within the time-out and half a second',
      ],
      ['test/faults/floods.test.ts', 'idle connections lock nobody out: the oldest are given up'],
      ['test/faults/floods.test.ts', 'requests that never end lock nobody out either'],
      ['test/bench/flood.ts'],
    ],
  },
  {
    id: 'F12',
    what: 'a body is huge, compressed, or nested without end',
    holds: 'refused by its size, its encoding or its depth; memory stays within a budget',
    proofs: [
      ['test/scenarios/intake.test.ts', 'takes what the vendor sends at most, and refuses more: 25 MiB in, 26 MiB out'],
      ['test/faults/http.test.ts', 'refuses compressed and oversized bodies'],
      ['test/faults/floods.test.ts', 'half-sent bodies hold no more than the budget, and make room for others: %s'],
      ['test/unit/platform/http/parse-json.test.ts', 'refuses to nest %s'],
      ['test/bench/flood.ts'],
    ],
  },
  {
    id: 'F13',
    what: 'a signed body is no JSON',
    holds: 'acknowledged, and shown in quarantine',
    proofs: [
      [
        'test/scenarios/intake.test.ts',
        'with malformed JSON is stored and acknowledged: reconcile shows it in quarantine',
      ],
      ['test/contracts/connectors.test.ts', 'calls broken bodies of $file malformed'],
    ],
  },
  {
    id: 'F14',
    what: 'a signature is wrong, missing or empty, or no secret is set',
    holds: '401, and nothing is stored',
    proofs: [
      ['test/scenarios/intake.test.ts', '%s: 401, nothing stored, counted, logged without the signature'],
      ['test/scenarios/intake.test.ts', 'never gets in, whatever bytes and signatures are tried'],
      ['test/contracts/connectors.test.ts', 'accepts nothing that is made up'],
      ['test/contracts/connectors.test.ts', 'refuses when no secret is configured, or an empty one'],
    ],
  },
  {
    id: 'F15',
    what: 'a valid delivery is replayed months later',
    holds: 'it changes nothing',
    proofs: [
      ['test/scenarios/intake.test.ts', 'replayed months later, when its body was purged, changes nothing'],
      ['test/laws/items.test.ts', 'what changes nothing says so, and what says so changes nothing'],
    ],
  },
  {
    id: 'F16',
    what: 'the key of the workspace is revoked',
    holds: 'one request in five minutes asks; nothing is lost; the next key is taken without a restart',
    proofs: [
      [
        'test/scenarios/trouble.test.ts',
        'halts the daemon, which says so, asks once in five minutes, and goes on when the key works again',
      ],
      ['test/scenarios/trouble.test.ts', 'is halted after a restart too, without a new try before its time'],
      [
        'test/unit/sync/quota/cooldown.test.ts',
        'sends nothing with a rejected key until the pause is over, then one request at a time until one is accepted',
      ],
    ],
  },
  {
    id: 'F17',
    what: 'secrets and keys are changed under load',
    holds: 'no good delivery is refused, and nothing restarts',
    proofs: [
      ['test/scenarios/reload.test.ts', 'changes a connection without a new start: another secret counts from then on'],
      ['test/scenarios/reload.test.ts', 'loses no delivery that comes while a workspace changes'],
      ['test/scenarios/intake.test.ts', 'is taken with the present secret and with the next one'],
      [
        'test/unit/cli/key-rotation.test.ts',
        'W23 cut off before or after any step, the same call finishes: one new key, in the file, the old one revoked',
      ],
    ],
  },
  {
    id: 'F18',
    what: 'the network is cut: no name, no answer, resets, half-open peers',
    holds:
      'each request ends within 30 seconds, and says whether it was certainly not sent; all arrives within a minute of the end',
    proofs: [
      ['test/faults/http.test.ts', 'is open for 30 seconds at most, whatever it waits for: %s'],
      ['test/scenarios/trouble.test.ts', 'since the network is cut and it %s: all arrives within a minute of the end'],
      ['test/faults/http.test.ts', 'a half-open peer that never answers'],
      ['test/faults/http.test.ts', 'a reset after the request arrived'],
      ['test/faults/http.test.ts', 'an unknown name'],
      ['test/faults/http.test.ts', 'a TLS handshake that never ends'],
      ['test/faults/http.test.ts', 'a body that drips past the total time'],
    ],
  },
  {
    id: 'F19',
    what: 'one change is refused whenever it is sent',
    holds: 'held after five requests, visibly; the others wait for one slot of the quota more at most',
    proofs: [
      ['test/scenarios/trouble.test.ts', 'is held after five attempts, visibly, and holds up nobody else'],
      ['test/scenarios/trouble.test.ts', 'among several that fail lets the others through'],
      [
        'test/unit/sync/reconcile/reconcile.budget.test.ts',
        'what the process ended over again and again is read no more',
      ],
    ],
  },
  {
    id: 'F20',
    what: 'a vendor changes its payloads',
    holds: 'nothing crashes; unknown values are kept apart; what cannot be read waits in quarantine',
    proofs: [
      ['test/fuzz/deliveries.test.ts', 'takes whatever comes as sound items of what is followed, or into quarantine'],
      ['test/contracts/connectors.test.ts', 'survives any drift of $file'],
      ['test/contracts/payloads.test.ts', '$name tells of one'],
      [
        'test/unit/workspace-api/typed-client.test.ts',
        'keeps unknown fields, takes unknown enum values, reads absent optional fields as null and []',
      ],
    ],
  },
  {
    id: 'F21',
    what: 'a provider is away for a day, and its webhooks are lost',
    holds:
      'redelivery and polls find what was missed, the end is right, and comes within 1.2 times the shortest time that the quota has',
    proofs: [
      [
        'test/deep/outage.test.ts',
        'a day in which a provider %s is caught up with in at most 1.2 times what the quota takes',
      ],
      [
        'test/scenarios/day.test.ts',
        'a day of all three providers, with lost, repeated and late webhooks, ends in their state at the fewest requests',
      ],
      ['test/laws/provider-order.test.ts', 'ends there too where webhooks are lost and a poll comes last'],
      ['test/contracts/redelivery.test.ts', 'asks once for each of those that failed, wherever they stand in the list'],
    ],
  },
  {
    id: 'F22',
    what: 'worksync is away for longer than anybody redelivers',
    holds: 'polls and sweeps find everything that changed',
    proofs: [
      ['test/contracts/redelivery.test.ts', 'finds what got no answer at all as long as it goes on'],
      ['test/scenarios/sweep.test.ts', 'comes though no process lives as long as its interval'],
      [
        'test/laws/tracker-engine.test.ts',
        'tells in the end of everything that was open at first or changed since, as it is',
      ],
    ],
  },
  {
    id: 'F23',
    what: 'a backfill is cut off at any step',
    holds: 'it goes on where it stopped, each page once',
    proofs: [
      ['test/faults/killed-work.test.ts', 'at any step of a backfill goes on where it stopped: each page once'],
      [
        'test/faults/killed-work.test.ts',
        'at any step of a walk goes on where it stopped: each page once, the watermark with the last',
      ],
      ['test/scenarios/backfill.test.ts', 'goes on after the end of the process at any page, and stores none twice'],
    ],
  },
  {
    id: 'F24',
    what: 'two daemons use one database',
    holds:
      'one file has one daemon, the other ends with 75; of replicas one holds each workspace, and nobody commits after who came later',
    proofs: [
      ['test/faults/daemon.test.ts', 'ends at once with 75 and says why; the first one goes on'],
      ['test/faults/daemon.test.ts', 'may take over as soon as the first was killed'],
      ['test/laws/lease.test.ts', 'no two trust in one workspace, and nobody commits after who came later'],
      ['test/faults/replicas.test.ts', 'three replicas under load'],
      ['test/deep/replicas.test.ts', 'three replicas under load'],
      [
        'test/scenarios/leases.sqlite.test.ts',
        'that stood still for too long commits and sends nothing more for what was taken from it',
      ],
      [
        'test/unit/sync/outbox/outbox.test.ts',
        'nothing waits for good or goes twice where the answer to commit %s gets lost',
      ],
    ],
  },
  {
    id: 'F25',
    what: 'two daemons with a database each write to one workspace',
    holds:
      'no record and no link is doubled, and no task where one of them triages; each gets two fifths of the quota, by what refusals show',
    proofs: [
      ['test/deep/two-daemons.test.ts', 'double nothing, and share the quota by the refusals alone'],
      [
        'test/deep/two-daemons.test.ts',
        'that both triage may make two tasks of an item, and never a third; the limits say so',
      ],
      [
        'test/unit/sync/quota/share.test.ts',
        'an automatic share leaves room at first, rises while no other use is detected, and falls on the first refusal',
      ],
      [
        'test/deep/quota-policy.test.ts',
        'is noticed on the first day; on the second it waits little, and each refusal of ours comes alone',
      ],
    ],
  },
  {
    id: 'F26',
    what: 'the database is deleted, damaged, or an older backup is put back',
    holds:
      'noticed at once; 78 and the remedy where it cannot start; what is lost is read again, and nothing is doubled',
    proofs: [
      [
        'test/faults/lost-database.test.ts',
        'beside a database that was deleted is read again: no record and no task is written, and nothing is doubled',
      ],
      [
        'test/faults/lost-database.test.ts',
        'beside an older backup, put back %s, is read again: no record and no task is written, and nothing is doubled',
      ],
      ['test/faults/lost-database.test.ts', 'beside an older copy that nobody said to be one doubles nothing either'],
      [
        'test/faults/daemon.test.ts',
        'for a database that is damaged ends with 78 and the remedy each time; moved away, it is rebuilt',
      ],
      [
        'test/faults/daemon.test.ts',
        'for a data folder of a version before the first release ends with 78 and the remedy',
      ],
      ['test/faults/databases.test.ts', '%s while the daemon runs takes no delivery any more'],
      [
        'test/faults/databases.test.ts',
        'reads a copy of the whole database, leaves nothing behind, and blocks all of it where it is damaged',
      ],
      ['test/unit/admin/data.test.ts', 'brings back one workspace and leaves the others as they are'],
    ],
  },
  {
    id: 'F27',
    what: 'an upgrade is killed, or taken back by one version',
    holds: 'the tables are the old ones or the new ones; the version before works with them',
    proofs: [
      ['test/unit/platform/database/sqlite.test.ts', 'that fail half-way leave nothing, and can be run again'],
      [
        'test/unit/platform/database/sqlite.test.ts',
        'of a newer program are worked with by those that it named, and left as they are',
      ],
      ['test/faults/databases.test.ts', 'comes before the tables of an older database are changed'],
    ],
  },
  {
    id: 'F28',
    what: 'SIGTERM under load, twice, or while nobody answers',
    holds: 'ready no more first, then an orderly end; a second signal ends at once; nothing is lost',
    proofs: [
      [
        'test/faults/daemon.test.ts',
        'under load ends with 0, readiness first, and loses nothing that was acknowledged',
      ],
      ['test/faults/daemon.test.ts', 'while the workspace does not answer ends with 0 all the same'],
      [
        'test/faults/daemon.test.ts',
        'a second one ends at once, with the code that shells know, however long the end takes',
      ],
    ],
  },
  {
    id: 'F29',
    what: 'thousands of items are backfilled while live events come',
    holds: '95 % of live events are seen within ten seconds, and the backfill gets four fifths of what they leave',
    proofs: [
      ['test/bench/quota/backfill.ts'],
      ['test/deep/quota-policy.test.ts', 'a backfill takes what live work leaves, and live work hardly notices'],
      [
        'test/unit/sync/quota/limits.test.ts',
        'spread backfills evenly, reserve slots for live lanes, and stop backfills while live lanes need theirs',
      ],
      [
        'test/scenarios/backfill.test.ts',
        'is sent last, whatever came first; a live event of the same item takes it along; no guard holds it',
      ],
    ],
  },
  {
    id: 'F30',
    what: 'a million deliveries in one life of the process',
    holds: 'neither memory nor open files grow; the database keeps what retention says',
    proofs: [
      ['test/soak/main.ts'],
      ['test/soak.md'],
      ['test/project/soak.test.ts', 'finds a leak in a noisy course, and none in one that only swings'],
    ],
    left: 'the tests play the judgement of a soak only; a million is played by `npm run soak`, which somebody starts: [`soak.md`](soak.md) is what the last one found',
  },
];

/** What strangers, authors, vendors and neighbours may try. */
export const ATTACKS: readonly Resistance[] = [
  {
    id: 'A1',
    what: 'forge a signature: none, a weaker one, repeated headers, another charset',
    holds: 'the path decides how a request is proved; raw bytes, one header, a closed door',
    proofs: [
      ['test/contracts/connectors.test.ts', 'accepts nothing that is made up'],
      ['test/contracts/connectors.test.ts', 'accepts no change of what is signed, and no other secret'],
      ['test/contracts/connectors.test.ts', 'refuses a repeated header, also when one of the values is right'],
      ['test/contracts/connectors.test.ts', 'refuses a right signature %s'],
      ['test/contracts/connectors.test.ts', 'refuses a right signature in the header of any other vendor'],
      ['test/scenarios/intake.test.ts', 'never gets in, whatever bytes and signatures are tried'],
      ['test/faults/http.test.ts', 'refuses %s twice: somebody on the way may have looked at the other one'],
    ],
  },
  {
    id: 'A2',
    what: 'guess a secret by the time that a refusal takes',
    holds:
      'one function compares, digests of one length and in constant time; a guess that is nearly right takes as long as any other',
    proofs: [
      ['test/project/secret-comparisons.test.ts', 'nothing that proves who somebody is is compared sign by sign'],
      ['test/project/secret-comparisons.test.ts', 'finds a comparison %s'],
      ['test/laws/secret-timing.test.ts', 'is seen to be nearly right where it is compared %s'],
      ['test/laws/secret-timing.test.ts', 'that is %s takes as long as one that is %s'],
      ['test/laws/secret-timing.test.ts', 'whose long secret is %s takes as long as one that is %s'],
    ],
  },
  {
    id: 'A3',
    what: 'replay a delivery, also to another connection',
    holds: 'ids are remembered; each connection takes only what its configuration names',
    proofs: [
      [
        'test/scenarios/replay.test.ts',
        'does nothing in other workspaces and at other connections, and something where it belongs',
      ],
      ['test/scenarios/replay.test.ts', 'does nothing at a connection of any other vendor'],
      ['test/scenarios/replay.test.ts', '%s does nothing, whoever sent it'],
      ['test/scenarios/intake.test.ts', 'replayed months later, when its body was purged, changes nothing'],
      ['test/laws/scope-names.test.ts', 'takes only what its name led to first, under all names'],
      ['test/unit/store/append-deliveries.test.ts', '%s is another delivery, and stays there'],
    ],
  },
  {
    id: 'A4',
    what: 'lead the daemon to another server by links, pages, redirects or names',
    holds:
      'no address of a payload is asked; the next page stays on its host; no redirect is followed; blocked addresses are refused after DNS',
    proofs: [
      ['test/faults/http.test.ts', 'every spelling of loopback over %s, and no connection is made'],
      ['test/faults/http.test.ts', 'always: %s'],
      ['test/faults/http.test.ts', 'is looked at again for each connection (DNS rebinding) over %s'],
      ['test/faults/http.test.ts', 'is not followed to one of several addresses that is blocked over %s'],
      ['test/faults/http.test.ts', 'does not follow a redirect'],
      ['test/contracts/connectors.test.ts', 'refuses a next page on another host'],
      ['test/contracts/connectors.test.ts', 'follows no redirect to another host'],
      ['test/contracts/connectors.test.ts', 'asks for nothing that a locator smuggles in'],
    ],
  },
  {
    id: 'A5',
    what: 'read a secret in a log, a page, a metric, an error or a file',
    holds: 'planted secrets are nowhere',
    proofs: [
      ['test/deep/canaries.test.ts', 'is nowhere: no file, no output, no page, no metric holds a piece of one'],
      ['test/unit/platform/observe/pino-logger.test.ts', 'holds for any secret in any surroundings'],
      ['test/unit/web/page-routes.test.ts', 'holds no secret, even where a stored error text does'],
    ],
  },
  {
    id: 'A6',
    what: 'leave a path by an id: `..`, `%2f`, another host',
    holds: 'no id leaves its segment; only unambiguous paths pass',
    proofs: [
      [
        'test/fuzz/parsers.test.ts',
        'a path names one workspace or task, of one segment, and an id never leaves its own',
      ],
      [
        'test/unit/workspace-api/typed-client.test.ts',
        'never lets an id leave its segment: refused before anything is sent',
      ],
      ['test/scenarios/gateway.test.ts', 'whatever they hold, go to the workspace as they stand or nowhere'],
      ['test/scenarios/doors.test.ts', 'sends no request to another place than the workspace: %j'],
    ],
  },
  {
    id: 'A7',
    what: 'reach a prototype by keys of JSON',
    holds: 'such keys are refused',
    proofs: [
      ['test/unit/platform/http/parse-json.test.ts', 'throws nothing but JsonError, whatever comes'],
      ['test/unit/platform/http/parse-json.test.ts', 'refuses %s'],
    ],
  },
  {
    id: 'A8',
    what: 'write texts or patterns that take for ever to read',
    holds: 'steps grow in proportion to the length; a thousand signs take less than 10 ms',
    proofs: [
      ['test/laws/redos.test.ts', 'takes no time over what it would go back over: %s'],
      ['test/laws/redos.test.ts', '%s: no text of strangers takes long'],
      ['test/laws/linear-cost.test.ts', '%s: signs that follow one another'],
      ['test/laws/linear-cost.test.ts', 'deliveries of $id'],
      ['test/laws/linear-patterns.test.ts', 'finds those that go back'],
      [
        'test/unit/connectors/azure-boards/html.test.ts',
        'elements: marks that are never closed are not opened again without end',
      ],
    ],
  },
  {
    id: 'A9',
    what: 'put markup, control characters or mentions into texts',
    holds: 'they are text: on pages, in terminals, in the log',
    proofs: [
      [
        'test/unit/platform/observe/pino-logger.test.ts',
        'holds no character that steers a terminal or reorders text, and reads back as it was',
      ],
      ['test/scenarios/commands.test.ts', 'shows nothing of a title that would act on a terminal'],
      ['test/scenarios/looking-inside.test.ts', 'is for people without --json; hostile text cannot act on a terminal'],
      ['test/unit/web/pages/pages.test.ts', 'allows nothing inline by its policy, and is kept by nobody'],
    ],
  },
  {
    id: 'A10',
    what: 'use the doors of administrators, or the browser of one',
    holds: 'each door says for whom it is; a change needs our origin and the token of our page',
    proofs: [
      ['test/scenarios/doors.test.ts', 'lets in whom it should: %s'],
      ['test/scenarios/doors.test.ts', 'is one of these: a new one is closed until it says for whom it is'],
      ['test/unit/web/access-control.test.ts', 'a page of another origin gets nothing, whatever it sends'],
      [
        'test/unit/web/access-control.test.ts',
        'changes something only from a page of ours, with the token that stands in it',
      ],
    ],
  },
  {
    id: 'A11',
    what: 'reach the pages under another host name (DNS rebinding)',
    holds: 'at each route a foreign host or origin gets 403, or what everybody gets',
    proofs: [
      ['test/scenarios/doors.test.ts', 'under the name %s gets 403 at every route that is not for everybody'],
      ['test/scenarios/doors.test.ts', 'of the origin %s gets 403 at every route that is not for everybody'],
      [
        'test/scenarios/doors.test.ts',
        'learns at the others what everybody learns, and may read no answer of another origin: %j',
      ],
      ['test/unit/web/access-control.test.ts', 'a host that is none of ours is told so: %s'],
    ],
  },
  {
    id: 'A12',
    what: 'flood the daemon before anything is proved',
    holds: 'a budget of bytes, a bounded number of connections; forgers make room first',
    proofs: [
      ['test/faults/floods.test.ts', 'half-sent bodies hold no more than the budget, and make room for others: %s'],
      ['test/unit/platform/http/traffic.test.ts', 'suspects come after others, but are not starved'],
      [
        'test/unit/platform/http/traffic.test.ts',
        'when too many wait, the worst address is turned away: 429 where it is suspect, else 503',
      ],
      ['test/scenarios/intake.test.ts', 'tells the sender to come again while the inbox is full'],
      ['test/bench/flood.ts'],
    ],
  },
  {
    id: 'A13',
    what: 'use up the quota by events that anybody can cause',
    holds:
      'events of an item become one write; many creations wait for a person; strangers at the gateway have five tries',
    proofs: [
      ['test/scenarios/guard.test.ts', 'holds what is over the limit of creations until someone lets it go'],
      [
        'test/scenarios/order.test.ts',
        'in every order, while nothing is sent, end in the provider’s state with one write each',
      ],
      ['test/scenarios/gateway.test.ts', 'cannot drain the quota: an address has five tries, also at the same time'],
    ],
  },
  {
    id: 'A14',
    what: "name somebody else's task to change it",
    holds: 'a name makes a link and nothing else, unless rules say so',
    proofs: [
      ['test/scenarios/policy.test.ts', 'may link a task, and take away such links alone as a text has made'],
      [
        'test/scenarios/policy.test.ts',
        'may not change the state of a task, whatever the text says and whatever is merged or closed',
      ],
      ['test/scenarios/policy.test.ts', 'makes a task by no pull request, and by an issue only where a rule says so'],
      ['test/scenarios/policy.test.ts', 'makes a task only by their own name, where a rule names authors'],
      [
        'test/scenarios/policy.test.ts',
        'closes nothing at the vendor: a person in the workspace does, where that is switched on',
      ],
      ['test/laws/triage.test.ts', 'an item has one task, and one link to it'],
      ['test/scenarios/write-back.test.ts', 'is not written where nothing says so'],
      ['test/unit/platform/config/load.rules.test.ts', 'writing back is off unless it is switched on, one by one'],
    ],
  },
  {
    id: 'A15',
    what: 'run SQL by a text',
    holds: 'statements have parameters, stand in one folder, and name their workspace',
    proofs: [
      [
        'test/project/architecture.test.ts',
        'asks the database in store/ only, apart from the reference service, which has its own',
      ],
      ['test/project/architecture.test.ts', 'makes no SQL of texts: statements have parameters'],
      ['test/unit/store/workspace-scope.test.ts', 'the items of a name'],
    ],
  },
  {
    id: 'A16',
    what: 'break out of the container',
    holds: 'no root, a read-only file system, no capabilities, writes below two folders only',
    proofs: [
      ['test/project/image.test.ts', 'is built on one base that a build pins, and runs as no root'],
      [
        'test/project/deploy.test.ts',
        'the Kubernetes manifests run the image as it is meant: one replica, its user, no rights',
      ],
      ['test/project/deploy.test.ts', 'the compose service runs the image as it is meant'],
      [
        'test/project/deploy.test.ts',
        'each file that runs the image takes its rights away, and mounts nothing of the machine into it',
      ],
      ['test/deep/image.test.ts', 'works: it becomes ready, is healthy, and ends in order'],
      ['test/deep/image.test.ts', 'can write its data and shared memory, and nothing else'],
      ['test/deep/image.test.ts', 'cannot start a shell, though the base has one, nor read what its user may not'],
      ['test/deep/daemon-process.test.ts', 'gets nothing: no file, no page, no command'],
    ],
    left: 'its contents run under the rights of a container, but no engine has run the image on its base; jobs of GitLab need the shell that this has',
  },
  {
    id: 'A17',
    what: 'bring bad code by a package',
    holds:
      'hashes for all, no script at the installation, no version younger than three days, at most 90 packages, known licences, a list of them in ours',
    proofs: [
      ['test/project/supply.test.ts', 'run no script, and take no version before others have tried it'],
      ['test/deep/least-age.test.ts', 'is not the one that is taken'],
      ['test/deep/least-age.test.ts', 'is refused where somebody has put it into the lock file'],
      [
        'test/project/supply.test.ts',
        'runs pinned code with no more rights than it needs, holds no token, and tells where the package comes from',
      ],
      ['test/project/supply.test.ts', 'are as they should be'],
      ['test/project/supply.test.ts', 'is not believed where one is missing, too many, or without a hash'],
      ['test/deep/production-packages.test.ts', 'are those that are counted'],
      [
        'test/deep/production-packages.test.ts',
        'work, those with code of the machine too, though no script of theirs has run',
      ],
      ['test/deep/package.test.ts', 'lists the packages that it brings, with their hashes'],
    ],
    left: 'the workflow that publishes with provenance runs at GitHub only: no release has been made with it',
  },
  {
    id: 'A18',
    what: 'answer with what breaks the reader',
    holds: 'read, or called malformed, and nothing else; 16 MiB at most',
    proofs: [
      ['test/fuzz/parsers.test.ts', 'an answer of the workspace is what the contract says, or refused'],
      [
        'test/unit/workspace-api/typed-client.test.ts',
        'reads any mutated answer or says answer_malformed, never anything else',
      ],
      ['test/contracts/answers.test.ts', 'and nothing but a SyncError comes of answers that are not what was promised'],
      ['test/faults/http.test.ts', 'takes 16 MiB by default and not a byte more'],
    ],
  },
  {
    id: 'A19',
    what: 'read along where TLS is left out',
    holds: 'plain HTTP to another machine is said loudly; no page lets anybody log in over it',
    proofs: [
      ['test/unit/platform/config/load.test.ts', 'plain http to another machine is a warning'],
      ['test/faults/http.test.ts', 'a peer that does not speak TLS, and one that hangs up in the handshake'],
      ['test/unit/web/login-routes.test.ts', 'not over plain HTTP from %s, unless the network is said to be safe'],
    ],
  },
  {
    id: 'A20',
    what: 'take the database',
    holds: 'its owner alone may read it; credentials are digests or encrypted; bodies go after their time',
    proofs: [
      [
        'test/unit/platform/database/sqlite.test.ts',
        'can be seen by its owner only, also where an older version let everybody see it, and keeps being held',
      ],
      ['test/unit/platform/lib/secret-box.test.ts', 'refuses a text in which any one bit was changed'],
      ['test/scenarios/gateway.test.ts', 'stand in no row and in no file of the data folder'],
      [
        'test/deep/canaries.test.ts',
        'is nowhere over PostgreSQL either: no row, no page of its files, no output holds a piece of one',
      ],
      ['test/deep/canaries.test.ts', 'is nowhere: no file, no output, no page, no metric holds a piece of one'],
    ],
  },
];
