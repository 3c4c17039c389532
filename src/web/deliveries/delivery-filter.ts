import type { WantedDeliveries } from '../../admin/deliveries/deliveries.ts';
import { DELIVERY_SOURCES, DELIVERY_STATES } from '../../model/delivery.ts';

/** Reads the filter from an address; values without a meaning are left out. */
export function wantedOf(given: { get(name: string): string | null | undefined }): WantedDeliveries {
  const [about, state, connection, source] = ['about', 'state', 'connection', 'source'].map(
    (name) => (given.get(name) ?? '').trim() || undefined,
  );
  return {
    about,
    connection,
    state: DELIVERY_STATES.find((each) => each === state),
    source: DELIVERY_SOURCES.find((each) => each === source),
    own: given.get('own') === 'yes' || undefined,
  };
}

/** Writes the filter as parameters of an address, or fields of a form. */
export function fieldsOf({ own, ...texts }: WantedDeliveries): Record<string, string> {
  const all = { ...texts, own: own ? 'yes' : undefined };
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}
