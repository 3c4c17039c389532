import {
  type CompiledQuery,
  type ConnectionProvider,
  DefaultQueryExecutor,
  type Dialect,
  type QueryResult,
} from 'kysely';

/** How statements are written for a database. */
export type Words = Omit<Dialect, 'createDriver'>;

type Provide = ConnectionProvider['provideConnection'];

/**
 * Runs statements as they are on the connection that it is given. Kysely's own executor makes twenty promises for each, for pools and
 * plugins, which take longer than a statement over a file.
 */
export class DirectExecutor extends DefaultQueryExecutor {
  readonly #provide: Provide;
  readonly #within: DirectExecutor;

  /** @param within runs what is asked by whoever has the connection already, as in a transaction; absent: this one does */
  constructor(words: Words, provide: Provide, within?: DirectExecutor) {
    super(words.createQueryCompiler(), words.createAdapter(), { provideConnection: provide });
    this.#provide = provide;
    this.#within = within ?? this;
  }

  override executeQuery<Row>(statement: CompiledQuery): Promise<QueryResult<Row>> {
    return this.#provide((connection) => connection.executeQuery<Row>(statement));
  }

  override withConnectionProvider(): DirectExecutor {
    return this.#within;
  }
}
