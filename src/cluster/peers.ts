import type { LeaseOwner, RenewedReplica, Replica } from '../store/leases.ts';
import { type ReplicaFacts, readFacts, type SeenReplica } from './replica-facts.ts';

interface NeighboursDeps {
  /** Of this process. */
  readonly id: string;
  /** Where the others reach it. */
  readonly address: () => string;
  readonly facts: () => ReplicaFacts;
}

/** What this process tells the others of itself, and what they told of themselves. */
export interface Peers {
  own(): Omit<Replica, 'incarnation'>;
  /** Whether the others know something else of it. */
  isOutdated(replicas: readonly RenewedReplica[]): boolean;
  saw(living: readonly RenewedReplica[]): void;
  /** This process too. */
  all(): readonly SeenReplica[];
  /** One that a row names. */
  seen(owner: LeaseOwner): SeenReplica;
}

export function createPeers({ id, address, facts }: NeighboursDeps): Peers {
  let living: readonly SeenReplica[] = [];
  let texts: ReadonlyMap<string, ReplicaFacts> = new Map();
  const seen: Peers['seen'] = ({ id: theirs, address: place, about }) => ({
    ...(texts.get(about) ?? readFacts(about)),
    ...{ id: theirs, address: place, isOwn: theirs === id },
  });
  const own = () => ({ id, address: address(), about: JSON.stringify(facts()) });
  return {
    own,
    isOutdated(replicas) {
      const present = own();
      const known = replicas.find((each) => each.id === id);
      return known !== undefined && (known.about !== present.about || known.address !== present.address);
    },
    saw(replicas) {
      // Twice a second, and nearly always the same.
      texts = new Map(replicas.map(({ about }) => [about, texts.get(about) ?? readFacts(about)]));
      living = replicas.map(seen);
    },
    all: () => living,
    seen,
  };
}
