import type { WorkItem } from '../../model/item.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { Connector } from '../connector.ts';
import { referenceOf } from '../kit/items.ts';
import { namedIn } from '../kit/scope.ts';
import { connect } from './connect.ts';
import { type Options, options, scopeOf } from './options.ts';
import { eventOf, PARTS, translate } from './translate.ts';
import { verify } from './verify.ts';

/** Everything that has no connector of its own, in a shape that the README of this folder describes. */
export const generic: Connector<Options> = {
  id: 'generic',
  title: 'Generic',
  publicHost: 'generic',
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
    reportsDeletions: true,
    workItems: true,
    supportsLabels: true,
    supportsAssignees: true,
  },
  largestDelivery: MEBIBYTE,
  options,
  host: (given) => given.system,
  verify,
  translate,
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host = 'generic') => options.parse({ system: host }),
  reference: (item) => referenceOf(PARTS, item as WorkItem),
  namesIn: (given) => namedIn(scopeOf(given)),
  connect,
};
