import pg from 'pg';

/**
 * All that a PostgreSQL keeps in the schema of this address, by what it is: the rows of each table, and the pages of its files, in which
 * rows stand that were changed or deleted since, and values that were too long for a row.
 */
export async function keptByPostgres(address: string): Promise<ReadonlyMap<string, Buffer>> {
  const { searchParams } = new URL(address);
  const schema = searchParams.get('schema') ?? 'public';
  const client = new pg.Client({ connectionString: address.replace(/\?.*$/, '') });
  await client.connect();
  try {
    // Pages that are in memory only are written.
    await client.query('checkpoint');
    const { rows: tables } = await client.query<{ name: string; oid: number; toast: number }>(
      `select relname as name, oid::int, reltoastrelid::int as toast from pg_class
       where relnamespace = $1::regnamespace and relkind = 'r'`,
      [schema],
    );
    const kept = new Map<string, Buffer>();
    for (const { name, oid, toast } of tables) {
      const { rows } = await client.query(`select * from ${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`);
      kept.set(`rows of ${name}`, Buffer.concat(rows.flatMap(bytesOf)));
      kept.set(`pages of ${name}`, Buffer.concat([await pagesOf(client, oid), await pagesOf(client, toast)]));
    }
    return kept;
  } finally {
    await client.end();
  }
}

function bytesOf(row: Readonly<Record<string, unknown>>): Buffer[] {
  return Object.values(row).map((value) => (Buffer.isBuffer(value) ? value : Buffer.from(` ${textOf(value)} `)));
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

async function pagesOf(client: pg.Client, oid: number): Promise<Buffer> {
  if (oid === 0) return Buffer.alloc(0);
  const { rows } = await client.query<{ pages: Buffer }>(
    'select pg_read_binary_file(pg_relation_filepath($1)) as pages',
    [oid],
  );
  return rows[0]?.pages ?? Buffer.alloc(0);
}
