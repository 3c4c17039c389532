import { createHmac } from 'node:crypto';
import { SyncError } from '../../model/errors/sync-error.ts';
import { type Binding, boundNames } from '../../model/names.ts';
import type { SampleEvent, SampleMoment, Samples } from '../connector.ts';
import { UUID } from './payload.ts';
import { type Candidate, inScope, isPattern, type Scope } from './scope.ts';
import { SIGNING_KEY } from './verify.ts';

/** What every sample is called, so that people recognise it. */
export const TRIAL = 'worksync trial';
export const TRIAL_TEXT =
  'Made by "worksync trigger" to try this connection. It exists in worksync alone: you may delete it.';
/** The same where a vendor allows no space: a branch, an account, a place. */
export const TRIAL_NAME = 'worksync-trial';
/** The same below an owner. */
export const TRIAL_PATH = `worksync/${TRIAL_NAME}`;
/** So high that no vendor has come to it. */
export const TRIAL_NUMBER = 999_000_001;
export const TRIAL_UUID = '00000000-0000-4000-8000-000000000001';

/** How a vendor writes the ids of its places. */
interface Ids {
  /** One that nobody has. */
  readonly made: string;
  /** Which entries of the scope are ids; absent: none. */
  readonly pattern?: RegExp;
}

export const NUMBERS: Ids = { made: String(TRIAL_NUMBER), pattern: /^\d+$/ };
export const UUIDS: Ids = { made: TRIAL_UUID, pattern: UUID };

/** A repository, project or team that nobody has. */
interface MadePlace {
  readonly ids: Ids;
  /** Goes with an entry that is an id; its last part stands for the stars of a pattern. */
  readonly name?: string;
}

/** What the payload of a sample is made with. */
interface Making<Options> extends SampleMoment {
  readonly options: Options;
  readonly place: Candidate;
  /** The moment, RFC 3339. */
  readonly now: string;
}

interface MadeSamples<Options, Name extends string, What, Sign> {
  readonly sign: Sign;
  scopeOf(options: Options): Scope;
  readonly place: MadePlace;
  /** Each with what tells it from the others. */
  readonly events: Readonly<Record<Name, readonly [about: string, what: What]>>;
  /** Headers that name the event; absent: none does. */
  headers?(what: What): Readonly<Record<string, string>>;
  payload(what: What, making: Making<Options>): object;
}

/** Sample events about one thing, in a place that the connection follows. */
export function samplesOf<Options, Name extends string, What, Sign extends Samples<Options>['sign']>(
  made: MadeSamples<Options, Name, What, Sign>,
) {
  const { scopeOf, sign, headers = () => ({}) } = made;
  const eventOf = ([about, what]: readonly [string, What]): SampleEvent<Options> => ({
    about,
    headers: headers(what),
    payload(options, moment) {
      const place = placeIn(scopeOf(options), moment, made.place);
      return made.payload(what, { ...moment, options, place, now: new Date(moment.at).toISOString() });
    },
  });
  const events = Object.entries<readonly [string, What]>(made.events).map(([name, each]) => [name, eventOf(each)]);
  return { events: Object.fromEntries(events) as Record<Name, SampleEvent<Options>>, sign };
}

/**
 * A place that the connection follows. A name is used only with the id that it is bound to: a made-up one would bind it, or
 * look as if the name led elsewhere. Throws `refused` where no id is known.
 */
export function placeIn(scope: Scope, { bindings }: Pick<SampleMoment, 'bindings'>, made: MadePlace): Candidate {
  const names = boundNames(bindings);
  const found = scope.include
    .map((entry) => candidateOf(entry, bindings, made))
    .find((place) => place && inScope(place, { ...scope, names }));
  if (found) return found;
  const hint = 'Let the daemon reach the vendor once, or give the id that the name has at the vendor with --id.';
  throw new SyncError('refused', 'worksync does not know yet which id the names of this connection have', { hint });
}

function candidateOf(entry: string, bindings: readonly Binding[], made: MadePlace): Candidate | undefined {
  const { ids, name = TRIAL_NAME } = made;
  if (isPattern(entry)) return { id: ids.made, name: entry.replaceAll(/\*+/g, name.replace(/^.*\//, '')) };
  const bound = bindings.find((each) => each.entry === entry.toLowerCase());
  if (bound) return { id: bound.id, name: bound.called };
  return ids.pattern?.test(entry) ? { id: entry, name } : undefined;
}

/** The three headers of Standard Webhooks; the secret is a signing token. */
export function standardSignature(body: Buffer, secret: string, { id, at }: Pick<SampleMoment, 'id' | 'at'>) {
  const sentAt = Math.floor(at / 1_000);
  const key = Buffer.from(secret.slice(SIGNING_KEY.length), 'base64');
  const digest = createHmac('sha256', key).update(`${id}.${sentAt}.`).update(body).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': String(sentAt), 'webhook-signature': `v1,${digest}` };
}
