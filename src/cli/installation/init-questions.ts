import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { SyncError } from '../../model/errors.ts';

export interface Question {
  readonly key: string;
  readonly text: string;
  /** Taken where nothing is typed; absent: an empty answer leaves it out. */
  readonly standard?: string;
  readonly isSecret?: boolean;
  /** Returns why an answer cannot be used. The question is then asked again. */
  readonly problemOf?: (answer: string) => string | undefined;
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

  async function answerTo({ text, standard, isSecret = false }: Question): Promise<string | undefined> {
    const asked = lines.question(`${text}${standard === undefined ? '' : ` [${standard}]`}: `);
    isMuted = isSecret;
    const typed = (await asked.catch(interrupted)).trim();
    isMuted = false;
    if (isSecret) output.write('\n');
    return typed === '' ? standard : typed;
  }

  async function usableAnswerTo(question: Question): Promise<string | undefined> {
    for (;;) {
      const answer = await answerTo(question);
      const problem = answer === undefined ? undefined : question.problemOf?.(answer);
      if (problem === undefined) return answer;
      output.write(`  ${problem}\n`);
    }
  }

  const answers: Record<string, string> = {};
  try {
    for (const question of questions) {
      const answer = await usableAnswerTo(question);
      if (answer !== undefined) answers[question.key] = answer;
    }
  } finally {
    lines.close();
  }
  return answers;
}
