import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startWorkspaceService } from '../support/fakes/workspace-service.ts';
import { worksync } from '../support/harness/processes.ts';
import { useScratch } from '../support/harness/scratch.ts';

const scratch = useScratch('commands');

it('5 command lines at once beside a daemon never exceed the window at the service', async () => {
  const quota = { requests: 100, window: 6_000, burst: 3, burstWindow: 1_500 };
  const service = await startWorkspaceService({ quota });
  const config = join(scratch.folder, 'small.yaml');
  const hooks = 'connector: github, repositories: [acme/app], webhookSecrets: a-secret-of-sixteen-or-more, poll: off';
  writeFileSync(
    config,
    `workspace: { url: "${service.url}", apiKey: ${service.apiKey} }\nconnections: { hooks: { ${hooks} } }\n` +
      'quota: { requests: 100, window: 6s, burst: 3, burstWindow: 1500ms, share: 1 }\n',
  );
  const flags = ['--config', config, '--data', join(scratch.folder, 'data')];
  const daemon = scratch.start(['run', ...flags, '--port', '0', '--log-level', 'silent']);
  try {
    await daemon.says('Status page');
    const ended = await Promise.all(
      Array.from({ length: 5 }, (_, at) => worksync(['tasks', 'bug', `At once ${at}`, ...flags])),
    );
    expect(ended.map(({ code }) => code)).toEqual(Array.from({ length: 5 }, () => 0));
    // Commands that waited for the quota printed only that.
    for (const { stderr } of ended)
      expect(stderr).toMatch(/^(worksync: the request quota .* Waiting for at most \d+ s\.\n)?$/);
    const { tasks, requests } = await service.service.statistics();
    expect(tasks).toBe(5);
    const { received, refused } = requests.get(service.apiKeyId)!;
    expect(received).toBeGreaterThanOrEqual(5);
    expect(refused).toBe(0);
  } finally {
    await daemon.end();
    await service.close();
  }
});
