import { createInterface } from 'node:readline/promises';

/** What the wizard still has to know; null where a flag said it. */
export interface Question {
  readonly key: 'from' | 'name' | 'url';
  readonly text: string;
  /** Taken where nothing is typed; absent: an empty answer leaves it out. */
  readonly standard?: string;
}

/** Asks one after another; questions go where data does not. */
export async function askQuestions(
  questions: readonly Question[],
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
): Promise<Readonly<Partial<Record<Question['key'], string>>>> {
  const lines = createInterface({ input, output });
  const answers: Partial<Record<Question['key'], string>> = {};
  try {
    for (const { key, text, standard } of questions) {
      const typed = (await lines.question(`${text}${standard === undefined ? '' : ` [${standard}]`}: `)).trim();
      const answer = typed === '' ? standard : typed;
      if (answer !== undefined) answers[key] = answer;
    }
  } finally {
    lines.close();
  }
  return answers;
}
