import { createHash } from 'node:crypto';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { Database } from '../../platform/database/database-types.ts';
import { KeyFileError, makeKeyFile, readKeyFile } from '../../platform/lib/key-file.ts';
import type { Random } from '../../platform/lib/random.ts';
import { createSecretBox, type SecretBox } from '../../platform/lib/secret-box.ts';
import type { ServiceTables } from '../storage/service-tables.ts';

interface SecretKeyDeps {
  /** The service's database; a key of its own lies beside it in `<file>.key`. */
  readonly file: string;
  /** A key that the environment gives: used instead of the file's. */
  readonly given?: Buffer;
  readonly database: Database<ServiceTables>;
  readonly random: Random;
  /** Only the process that holds the lock of the database makes a key, or takes over another one. */
  readonly owner: boolean;
}

/**
 * The box for stored secrets, with the key that is given, that the file holds, or that is made now. The database knows
 * a digest of the key: where something is encrypted, another key is refused instead of making it unreadable.
 * Throws `secret_key_missing` and `secret_key_wrong`; nothing is changed then.
 */
export async function openSecretBox(deps: SecretKeyDeps): Promise<SecretBox> {
  const { file, given, database, random } = deps;
  const known = await readDigest(database);
  const fixed = !deps.owner || (known !== undefined && (await isAnythingSealed(database)));
  const key = given ?? readKey(`${file}.key`) ?? makeKey(`${file}.key`, random, fixed);
  const digest = createHash('sha256').update('worksync secret key\n').update(key).digest('hex');
  if (digest !== known) {
    if (fixed) throw wrongKey(given === undefined ? `${file}.key` : 'WORKSYNC_SECRET_KEY');
    await writeDigest(database, digest);
  }
  return createSecretBox(key, random);
}

function wrongKey(origin: string): SyncError {
  return new SyncError('secret_key_wrong', `${origin} is not the key that secrets in the database are encrypted with`);
}

const FACT = 'secret_key';

async function readDigest({ query }: Database<ServiceTables>): Promise<string | undefined> {
  const row = await query.selectFrom('facts').select('value').where('name', '=', FACT).executeTakeFirst();
  return row?.value;
}

async function writeDigest({ query }: Database<ServiceTables>, value: string): Promise<void> {
  await query
    .insertInto('facts')
    .values({ name: FACT, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}

async function isAnythingSealed({ query }: Database<ServiceTables>): Promise<boolean> {
  const token = await query.selectFrom('provider_tokens').select('user_id').limit(1).executeTakeFirst();
  const webhook = await query.selectFrom('webhooks').select('webhook_id').limit(1).executeTakeFirst();
  return token !== undefined || webhook !== undefined;
}

function readKey(file: string): Buffer | undefined {
  try {
    return readKeyFile(file);
  } catch (error) {
    if (!(error instanceof KeyFileError)) throw error;
    const code = error.why === 'unreadable' ? 'secret_key_missing' : 'secret_key_wrong';
    throw new SyncError(code, error.message, { cause: error.cause });
  }
}

function makeKey(file: string, random: Random, fixed: boolean): Buffer {
  if (fixed) throw new SyncError('secret_key_missing', `${file} is missing, and secrets are encrypted with its key`);
  return makeKeyFile(file, random);
}
