import { expect, it } from 'vitest';
import type { ReplicaStatus, SharedStatus } from '../../../../src/admin/replica-status.ts';
import type { Visit } from '../../../../src/web/pages/page-content.ts';
import { replicasPage } from '../../../../src/web/pages/replicas-page.ts';

const HERE: ReplicaStatus = {
  ...{ id: 'a', address: 'http://a:8080', host: 'a', version: '1.0.0', startedAt: 0, isOwn: true, sameConfig: true },
  holds: [{ workspace: 'acme', since: 60_000 }],
};

function shown(told: SharedStatus, at?: number): Readonly<Record<string, string>> {
  const query = new Map(at === undefined ? [] : [['at', String(at)]]);
  const visit = { query, now: 3_600_000, clean: <Told>(each: Told) => each } as unknown as Visit;
  return Object.fromEntries(replicasPage(visit, told).parts.map(({ id, body }) => [id, body.text]));
}

it('says who works on what since when, who is silent, and who has another configuration', () => {
  const silent = { ...HERE, id: 'b', host: 'b', isOwn: false, holds: null };
  const other = { ...HERE, id: 'c', host: 'c', isOwn: false, sameConfig: false, holds: [] };
  const { replicas = '', leases = '' } = shown({ replicas: [HERE, silent, other], causes: [] });
  expect(replicas).toContain('a (this one)');
  expect(replicas.match(/silent|other configuration/g)).toEqual(['silent', 'other configuration']);
  expect(leases).toContain('href="/workspaces/acme"');
  expect(leases).toContain('1 min ago');
});

it('tells replicas of one host apart by their addresses', () => {
  const second = { ...HERE, id: 'b', address: 'http://a:8081', isOwn: false, holds: [{ workspace: 'beta', since: 1 }] };
  const { leases = '' } = shown({ replicas: [HERE, second], causes: [] });
  expect(leases).toContain('a, http://a:8080');
  expect(leases).toContain('a, http://a:8081');
});

it('escapes whatever other replicas say of themselves', () => {
  const evil = '<script>"\'&';
  const holds = [{ workspace: evil, since: 1 }];
  const cause = { code: evil, verdict: 'degraded', count: 1, since: null, seenAt: null, command: null } as const;
  const causes = [{ ...cause, message: evil, stops: evil, hint: evil }];
  const parts = shown({ replicas: [{ ...HERE, host: evil, address: evil, version: evil, holds }], causes });
  expect(
    Object.values(parts)
      .join('')
      .match(/&lt;script&gt;/g)?.length,
  ).toBeGreaterThanOrEqual(7);
  expect(Object.values(parts).join('')).not.toMatch(/<script/);
});

it('shows a hundred workspaces at a time', () => {
  const holds = Array.from({ length: 250 }, (_, index) => ({
    workspace: `w-${String(index).padStart(3, '0')}`,
    since: 1,
  }));
  const told = { replicas: [{ ...HERE, holds }], causes: [] };
  expect(shown(told)['leases']?.match(/href="\/workspaces/g)).toHaveLength(100);
  expect(shown(told, 2)['leases']).toContain('201–250 of 250');
  expect(shown(told, 9)['leases']).toContain('201–250 of 250');
});
