import { connectors } from '../connectors/registry.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { ownProxies } from '../platform/config/proxies.ts';
import { createHttpClient } from '../platform/http/http-client.ts';
import { systemClock } from '../platform/lib/clock.ts';
import { checkInWorker } from '../platform/lib/integrity.ts';
import type { Logger } from '../platform/lib/logger.ts';
import { systemRandom } from '../platform/lib/random.ts';
import { noSteps } from '../platform/lib/steps.ts';
import { createHealth } from '../platform/observe/health.ts';
import { mergingRepeats } from '../platform/observe/merged-repeats.ts';
import { createMetrics } from '../platform/observe/metrics.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import type { Parts } from './parts.ts';

/** The real clock, chance, network and vendors. */
export function systemParts(own: Logger, version: string, scrubber: Scrubber): Parts {
  const clock = systemClock();
  const logger = mergingRepeats(own, clock);
  const metrics = createMetrics({
    version,
    onMisuse: (error) => logger.error({ error: new SyncError('internal', error.message) }, 'metric misused'),
  });
  return {
    clock,
    random: systemRandom(),
    steps: noSteps,
    logger,
    metrics,
    health: createHealth(),
    connectors,
    checkFile: checkInWorker,
    http: createHttpClient({
      clock,
      steps: noSteps,
      meter: metrics.meter,
      proxies: ownProxies((secret) => scrubber.add(secret)),
      onSecret: (secret) => scrubber.addForNow(secret),
    }),
  };
}
