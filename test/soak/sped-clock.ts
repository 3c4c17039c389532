/** Stands in for `platform/lib/clock.ts` in the daemon of a soak: an hour of its time passes in a minute. */

export * from '../../src/platform/lib/clock.ts';
export { fastClock as systemClock } from '../support/fakes/crash-clock.ts';
