import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AccessTokens, OAuthGrant } from '../../../../src/connectors/connector.ts';
import { secretBoxBeside } from '../../../../src/daemon/open-store.ts';
import { systemRandom } from '../../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../../src/platform/lib/telemetry.ts';
import { claimRenewal } from '../../../../src/store/connections/oauth-credentials.ts';
import type { Installation } from '../../../../src/store/installation/installation.ts';
import { createGrants, type GrantDeps, type Grants } from '../../../../src/sync/intake/grants.ts';
import { withLateAnswers } from '../../../support/fakes/late-answers.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { drawn } from '../../../support/harness/depth.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';
import { openTestInstallation } from '../../../support/harness/store.ts';
import { createTokenEndpoint, type TokenEndpoint } from '../../../support/vendors/token-endpoint.ts';
import { documentedOnly } from '../../../support/vendors/vendor-requests/index.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const { signal } = new AbortController();

let folder: string;
let clock: TravellingClock;
let endpoint: TokenEndpoint;
let grant: OAuthGrant;
let secrets: Set<string>;
let installation: Installation;
let key: Buffer | undefined;

const open = () => openTestInstallation({ file: join(folder, 'worksync.db') });

beforeEach(async () => {
  folder = folderOfTest('oauth');
  clock = createTravellingClock();
  key = undefined;
  secrets = new Set();
  begin(10 * MINUTE);
  installation = await open();
});
afterEach(async () => {
  await installation.close();
});

let begun = 0;

function begin(leeway: number): void {
  endpoint = createTokenEndpoint(clock, { leeway, life: HOUR });
  grant = {
    tokenUrl: 'https://auth.atlassian.com/oauth/token',
    // Each grant differs, so that the store of one test may contain several.
    clientId: `client-${++begun}`,
    clientSecret: 'the-client-secret',
    refreshToken: endpoint.consent(),
    encoding: 'json',
  };
}

/** Returns the grants of one process. */
function grants(more: Partial<GrantDeps> = {}): Grants {
  return createGrants({
    installation,
    http: documentedOnly(endpoint.http),
    clock,
    logger: silentLogger,
    box: secretBoxBeside(join(folder, 'worksync.db'), key, systemRandom()),
    keepSecret: (token) => void secrets.add(token),
    ...more,
  });
}

const tokens = (of: Grants = grants(), wanted = grant): AccessTokens => of.tokensOf(wanted, 'jira');

/** Ends the process at once and starts another one on the same files. */
async function restart(): Promise<AccessTokens> {
  await installation.close();
  installation = await open();
  return tokens();
}

async function good(from: AccessTokens): Promise<void> {
  expect(endpoint.isGood(await from.get(signal))).toBe(true);
}

describe('access tokens', () => {
  it('are renewed once, even if a caller reads the stored row late', async () => {
    const late = withLateAnswers(installation.query, (number) => number > 1);
    const ours = tokens(grants({ installation: { ...installation, query: late.query } }));
    const [first, ...others] = [1, 2, 3].map(() => ours.get(signal));
    const token = await first;
    late.release();
    expect(await Promise.all(others)).toEqual([token, token]);
    expect(await ours.get(signal)).toBe(token);
    expect(endpoint.asked).toEqual(['refresh-token-1']);
  });

  it('that the vendor refuses are renewed at once, and no others', async () => {
    const ours = tokens();
    const first = await ours.get(signal);
    ours.refused('another one');
    expect(await ours.get(signal)).toBe(first);
    ours.refused(first);
    expect(await ours.get(signal)).not.toBe(first);
    expect(endpoint.asked).toHaveLength(2);
  });

  it.each<[string, number, string, string]>([
    ['for a client that it does not know', 401, '{"error":"invalid_client"}', 'unauthorized'],
    ['by an answer without a token', 200, '{"access_token":7}', 'answer_malformed'],
  ])('are rejected %s', async (_, status, body, code) => {
    endpoint.trouble.push({ status, body: Buffer.from(body) });
    await expect(tokens().get(signal)).rejects.toMatchObject({ code });
  });
});

describe('a grant', () => {
  it('needs consent if the vendor rejects the old token, and is then tried once an hour', async () => {
    endpoint.trouble.push('lost');
    await expect(tokens().get(signal)).rejects.toThrow('no more');
    await clock.advance(11 * MINUTE);
    const after = await restart();
    for (let minute = 0; minute < 30; minute++) {
      await expect(after.get(signal)).rejects.toMatchObject({ code: 'consent_needed', verdict: 'wait-until' });
      await clock.advance(MINUTE);
    }
    expect(endpoint.asked).toHaveLength(2);
    // A person consents again and puts the new token into the configuration.
    await good(tokens(grants(), { ...grant, refreshToken: endpoint.consent() }));
  });

  it('needs consent after a restore of a backup from before a rotation', async () => {
    const ours = tokens();
    await good(ours);
    const backup = await installation.query.selectFrom('oauth_credentials').selectAll().execute();
    let after = await restart();
    for (let hour = 0; hour < 3; hour++) {
      await clock.advance(HOUR);
      await good(after);
    }
    await installation.query.deleteFrom('oauth_credentials').execute();
    await installation.query.insertInto('oauth_credentials').values(backup).execute();
    after = await restart();
    const error: unknown = await after.get(signal).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'consent_needed' });
    expect(String(error)).not.toContain('refresh-token');
  });

  it('keeps the previous refresh token until the vendor accepted the new one', async () => {
    begin(Number.POSITIVE_INFINITY);
    const ours = tokens();
    await good(ours);
    await clock.advance(HOUR);
    endpoint.trouble.push({ status: 403, body: Buffer.from('{"error":"invalid_grant"}') });
    await good(ours);
    expect(endpoint.asked).toEqual(['refresh-token-1', 'refresh-token-2', 'refresh-token-1']);
  });

  it('is stored only encrypted, and its tokens are known to the scrubber', async () => {
    const ours = tokens();
    for (let hour = 0; hour < 5; hour++) {
      await good(ours);
      await clock.advance(HOUR);
    }
    const rows = await installation.query.selectFrom('oauth_credentials').selectAll().execute();
    expect(rows).toHaveLength(1);
    await installation.close();
    const bytes = ['', '-wal'].map((rest) => join(folder, `worksync.db${rest}`)).filter((file) => existsSync(file));
    const kept = [JSON.stringify(rows), ...bytes.map((file) => readFileSync(file, 'latin1'))];
    expect(kept.join()).not.toMatch(/(access|refresh)-token-\d/);
    expect(secrets).toContain('refresh-token-6');
    expect(secrets).toContain('access-token-6');
    installation = await open();
    key = Buffer.alloc(32, 7);
    await expect(tokens().get(signal)).rejects.toMatchObject({ code: 'secret_key_wrong' });
  });

  it('continues or needs consent after a crash at any step, and never returns an invalid token', async () => {
    const steps = fc.array(fc.constantFrom('get', 'get', 'hour', 'minutes', 'lost', 'unreachable', 'restart'), {
      maxLength: 25,
    });
    await fc.assert(
      fc.asyncProperty(steps, fc.constantFrom(0, 10 * MINUTE, Number.POSITIVE_INFINITY), async (course, leeway) => {
        begin(leeway);
        let ours = tokens();
        let isDead = false;
        for (const step of course) {
          if (step === 'hour') await clock.advance(HOUR);
          if (step === 'minutes') await clock.advance(7 * MINUTE);
          if (step === 'lost') endpoint.trouble.push('lost');
          if (step === 'unreachable') endpoint.trouble.push({ status: 502 });
          if (step === 'restart') ours = tokens();
          if (step !== 'get') continue;
          const token = await ours.get(signal).catch((error: unknown) => error as { code?: string });
          if (typeof token === 'string') expect(endpoint.isGood(token)).toBe(true);
          else expect(token.code ?? 'lost').toMatch(/^(consent_needed|server_failed|internal|lost)$/);
          isDead ||= typeof token !== 'string' && token.code === 'consent_needed';
        }
        endpoint.trouble.length = 0;
        // If the vendor accepts every old token, no consent is ever needed.
        if (leeway === Number.POSITIVE_INFINITY) {
          expect(isDead).toBe(false);
          await good(tokens());
        }
      }),
      { numRuns: drawn(60) },
    );
  });
});

describe('several processes over one database', () => {
  it('renew a grant by one request, and use the token that another process renewed', async () => {
    const processes = [1, 2, 3].map(() => tokens(grants({ isShared: true })));
    for (let hour = 0; hour < 5; hour++) {
      const asked = endpoint.asked.length;
      const all = await whenGiven(Promise.all(processes.map((each) => each.get(signal))));
      expect(new Set(all).size).toBe(1);
      expect(endpoint.isGood(all[0] as string)).toBe(true);
      expect(endpoint.asked.length - asked).toBe(1);
      await clock.advance(HOUR - 1 * MINUTE);
    }
  });

  it('continue after a crash of the process that renewed', async () => {
    await claimRenewal(installation.query, await idOfStored(), clock.now(), clock.now() + 30_000);
    const given = tokens(grants({ isShared: true })).get(signal);
    await clock.advance(20_000);
    expect(endpoint.asked).toHaveLength(1);
    expect(endpoint.isGood(await whenGiven(given))).toBe(true);
  });
});

/** Lets the time pass until the tokens are given. */
async function whenGiven<Given>(given: Promise<Given>): Promise<Given> {
  let isGiven = false;
  void given.then(() => {
    isGiven = true;
  });
  await clock.until(() => isGiven);
  return given;
}

/** Returns the stored id of the grant, after a process has renewed it and its access token has expired. */
async function idOfStored(): Promise<string> {
  await tokens(grants({ isShared: true })).get(signal);
  await clock.advance(2 * HOUR);
  const row = await installation.query.selectFrom('oauth_credentials').select('id').executeTakeFirstOrThrow();
  return row.id;
}
