import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { SyncError } from '../model/errors/sync-error.ts';

/** One question of `worksync init`. */
export interface Question {
  readonly key: string;
  readonly text: string;
  /** Taken where nothing is typed; absent: an empty answer leaves it out. */
  readonly standard?: string;
  /** Hides what the person types. */
  readonly isSecret?: boolean;
}

/** Ctrl-C at a question. */
function interrupted(cause: unknown): never {
  throw new SyncError('aborted', 'the questions were interrupted', {
    cause,
    hint: 'Run the same command again: it goes on with what was written.',
  });
}

/** Asks one question after another, on the stream that carries no data. Returns the answers by key. */
export async function askQuestions(
  questions: readonly Question[],
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
): Promise<Readonly<Record<string, string>>> {
  let isMuted = false;
  const shown = new Writable({
    write(chunk, encoding, done) {
      if (!isMuted) output.write(chunk, encoding as BufferEncoding);
      done();
    },
  });
  const isTerminal = 'isTTY' in input && input.isTTY === true;
  const lines = createInterface({ input, output: shown, terminal: isTerminal });
  const answers: Record<string, string> = {};
  try {
    for (const { key, text, standard, isSecret = false } of questions) {
      const asked = lines.question(`${text}${standard === undefined ? '' : ` [${standard}]`}: `);
      isMuted = isSecret;
      const typed = (await asked.catch(interrupted)).trim();
      isMuted = false;
      if (isSecret) output.write('\n');
      const answer = typed === '' ? standard : typed;
      if (answer !== undefined) answers[key] = answer;
    }
  } finally {
    lines.close();
  }
  return answers;
}
