import { ownProxies } from '../config/proxies.ts';
import { connectors } from '../connectors/registry.ts';
import { SyncError } from '../errors/sync-error.ts';
import { createHttpClient } from '../http/http-client.ts';
import { systemClock } from '../lib/clock.ts';
import { checkInWorker } from '../lib/integrity.ts';
import type { Logger } from '../lib/logger.ts';
import { systemRandom } from '../lib/random.ts';
import { noSteps } from '../lib/steps.ts';
import { createHealth } from '../observe/health.ts';
import { mergingRepeats } from '../observe/merged-repeats.ts';
import { createMetrics } from '../observe/metrics.ts';
import type { Scrubber } from '../observe/scrubber.ts';
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
