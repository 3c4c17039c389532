import secureJson from 'secure-json-parse';

/** Deeper nesting than any vendor sends; recursion over a hostile body stays bounded. */
const DEEPEST = 64;

/** Why a body is not acceptable JSON; the message is fit for an answer. Where nobody handles it, the sender is at fault. */
export class JsonError extends Error {
  readonly code = 'answer_malformed';
}

/** Parses hostile JSON: no prototype keys, bounded depth, strict UTF-8. Throws `JsonError`. */
export function parseJson(bytes: Uint8Array): unknown {
  const text = decode(bytes);
  refuseDeep(text);
  try {
    return secureJson.parse(text, {
      protoAction: 'error',
      constructorAction: 'error',
    });
  } catch (error) {
    throw new JsonError(withoutExcerpt((error as Error).message));
  }
}

/**
 * The parser shows a few characters of the text, cut anywhere: the scrubber would not recognise half a secret that the server
 * repeated. So the error has neither the excerpt nor the parser's own error.
 */
function withoutExcerpt(message: string): string {
  if (!message.endsWith(' is not valid JSON')) return message;
  const excerpt = message.search(/, (?:\.{3})?"/);
  return excerpt === -1 ? 'not valid JSON' : `${message.slice(0, excerpt)}: not valid JSON`;
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new JsonError('not valid UTF-8', { cause: error });
  }
}

/** Counts brackets outside strings; cheaper than parsing, and safe at any depth. */
function refuseDeep(text: string): void {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) at = endOfString(text, at);
    else if (code === 0x7b || code === 0x5b) depth++;
    else if (code === 0x7d || code === 0x5d) depth--;
    if (depth > DEEPEST) throw new JsonError(`nested deeper than ${DEEPEST} levels`);
  }
}

/** Digits that every number holds exactly. */
const EXACT_DIGITS = 15;

/**
 * JSON whose whole numbers of more than 15 digits stand in quotation marks, so that none of their digits is lost. Strings,
 * fractions and exponents stay as they are; what is no JSON stays none.
 */
export function longNumbersAsTexts(bytes: Buffer): Buffer {
  const text = bytes.toString('latin1');
  const pieces: string[] = [];
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') at = endOfString(text, at);
    else if (isNumeric(text, at)) {
      const end = endOfNumber(text, at);
      if (end - at > EXACT_DIGITS && isWhole(text, at, end)) {
        pieces.push(text.slice(from, at), '"', text.slice(at, end), '"');
        from = end;
      }
      at = end - 1;
    }
  }
  return pieces.length === 0 ? bytes : Buffer.from(pieces.join('') + text.slice(from), 'latin1');
}

/** A digit, or a character that may stand beside one in a number. */
function isNumeric(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return (
    (code >= 0x30 && code <= 0x39) || code === 0x2b || code === 0x2d || code === 0x2e || code === 0x45 || code === 0x65
  );
}

function endOfNumber(text: string, start: number): number {
  let at = start;
  while (at < text.length && isNumeric(text, at)) at++;
  return at;
}

function isWhole(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x30 || code > 0x39) return false;
  }
  return true;
}

function endOfString(text: string, start: number): number {
  let at = text.indexOf('"', start + 1);
  while (at !== -1 && isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at === -1 ? text.length : at;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(at - 1 - backslashes) === 0x5c) backslashes++;
  return backslashes % 2 === 1;
}
