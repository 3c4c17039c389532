import { yieldForRequests } from '../lib/concurrency.ts';
/** Replaces the values of secrets in any text that leaves the process. */
export interface Scrubber {
  /** Adds a value to replace. A value of several lines is also replaced line by line. */
  readonly add: (secret: string) => void;
  /** Adds a value in temporary use, such as a token that is renewed every hour: only the last ones are kept. */
  readonly addForNow: (secret: string) => void;
  scrub(text: string): string;
}

/** The replacement of a secret. */
const MARK = '[secret]';

/** Replacing a shorter value would hide ordinary words; the configuration refuses such a secret. */
const SHORTEST = 4;

/** A fragment of an encoded form that is shorter than this may appear by chance. */
const SHORTEST_FRAGMENT = 8;

/** Temporary values that are kept: more than a process uses between two renewals. */
const MOST_FOR_NOW = 1_000;

/**
 * Recognizes each secret literally, as JSON (up to thrice: a body within a message within the line), URL-encoded, in hexadecimal,
 * and in base64 and base64url at all three alignments, because a secret inside `user:secret` is encoded from another byte on.
 */
export function createScrubber(secrets: readonly string[] = []): Scrubber {
  const forms = createForms();
  const known = new Set<string>();
  const forNow = new Set<string>();
  const allForms = (secret: string) => new Set(partsOf(secret).flatMap(formsOf));
  const add = (secret: string) => {
    if (known.has(secret)) return;
    known.add(secret);
    for (const form of allForms(secret)) forms.add(form);
  };
  for (const secret of secrets) add(secret);
  return {
    add,
    addForNow(secret) {
      const isNew = !forNow.delete(secret);
      forNow.add(secret);
      if (isNew) for (const form of allForms(secret)) forms.add(form);
      if (forNow.size <= MOST_FOR_NOW) return;
      const [oldest = ''] = forNow;
      forNow.delete(oldest);
      for (const form of allForms(oldest)) forms.remove(form);
    },
    scrub: (text) => forms.replaceIn(text),
  };
}

/**
 * Texts to find in other texts. The time of a search does not grow with their number, and a further text only costs its own
 * memory. (One regular expression of all of them took seconds to compile for thousands.)
 */
function createForms() {
  /** Texts by their first characters: keys of one vendor begin alike, so there may be thousands under one. */
  const byStart = new Map<string, Alike>();
  /** Whether a text may begin with these two characters, and with these four: excludes nearly every place at once. */
  const pairs = new Uint8Array(2 ** 14);
  const starts = new Uint8Array(2 ** 18);

  return {
    add(form: string): void {
      const start = form.slice(0, SHORTEST);
      const alike: Alike = byStart.get(start) ?? { uses: new Map(), lengths: [] };
      byStart.set(start, alike);
      alike.uses.set(form, (alike.uses.get(form) ?? 0) + 1);
      // Descending, so that no form leaves the tail of a longer one behind.
      if (!alike.lengths.includes(form.length))
        alike.lengths = [...alike.lengths, form.length].sort((left, right) => right - left);
      pairs[pairOf(form.charCodeAt(0), form.charCodeAt(1))] = 1;
      starts[hashAt(form, 0)] = 1;
    },
    remove(form: string): void {
      const start = form.slice(0, SHORTEST);
      const alike = byStart.get(start);
      const left = (alike?.uses.get(form) ?? 0) - 1;
      if (left > 0) alike?.uses.set(form, left);
      else alike?.uses.delete(form);
      if (alike?.uses.size === 0) byStart.delete(start);
    },
    replaceIn(text: string): string {
      if (byStart.size === 0) return text;
      let clean = '';
      let from = 0;
      let next = text.charCodeAt(0);
      for (let at = 0; at <= text.length - SHORTEST; at++) {
        const code = next;
        next = text.charCodeAt(at + 1);
        if (pairs[pairOf(code, next)] === 0 || starts[hashAt(text, at)] === 0) continue;
        const length = lengthAt(byStart.get(text.slice(at, at + SHORTEST)), text, at);
        if (length === undefined) continue;
        clean += text.slice(from, at) + MARK;
        from = at + length;
        at = from - 1;
        next = text.charCodeAt(from);
      }
      return from === 0 ? text : clean + text.slice(from);
    },
  };
}

/** Texts with the same beginning, and how often each was added. */
interface Alike {
  readonly uses: Map<string, number>;
  /** Lengths of the texts, present or past. */
  lengths: readonly number[];
}

/** Returns the length of the longest text at this place. */
function lengthAt(alike: Alike | undefined, text: string, at: number): number | undefined {
  return alike?.lengths.find((length) => alike.uses.has(text.slice(at, at + length)));
}

function pairOf(first: number, second: number): number {
  return ((first << 7) ^ second) & (2 ** 14 - 1);
}

/** Hashes the characters from here on that make a start. */
function hashAt(text: string, at: number): number {
  let hash = 0;
  for (let offset = 0; offset < SHORTEST; offset++) hash = Math.imul(hash ^ text.charCodeAt(at + offset), 0x9e3779b1);
  return hash >>> 14;
}

/** A private key is one secret, and so is every line of it except its frame. */
function partsOf(secret: string): string[] {
  const lines = secret.split(/\r?\n/).filter((line) => line.length >= 16 && !line.startsWith('-----'));
  const whole = secret.trim();
  return [...new Set([secret, whole, ...(secret.includes('\n') ? lines : [])])].filter(
    (part) => part.length >= SHORTEST,
  );
}

function formsOf(secret: string): string[] {
  const json = inJson(secret);
  const twice = inJson(json);
  const url = encodeURIComponent(secret.toWellFormed());
  const plain = [secret, json, twice, inJson(twice)];
  const encoded = [
    url,
    url.replace(/%[0-9A-F]{2}/g, (byte) => byte.toLowerCase()),
    url.replaceAll('%20', '+'),
    Buffer.from(secret).toString('hex'),
    Buffer.from(secret).toString('hex').toUpperCase(),
    ...inBase64(secret),
  ];
  return [...plain, ...encoded.filter((form) => form.length >= SHORTEST_FRAGMENT)];
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Returns the characters of each alignment that depend on the secret alone, independent of the text around it. */
function inBase64(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const whole = bytes.toString('base64');
  const aligned = [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64');
    const first = Math.ceil((shift * 8) / 6);
    return text.slice(first, Math.floor(((shift + bytes.length) * 8) / 6));
  });
  return [whole, ...aligned].flatMap((text) => [text, text.replaceAll('+', '-').replaceAll('/', '_')]);
}

/** Bytes that are searched at once: about ten milliseconds. */
const CHUNK = 1_048_576;
/** No encoded form of a secret is longer, characters. */
const LONGEST_FORM = 16_384;

/** Replaces the secrets in bytes. Reads them as Latin-1, so that bytes that are not text stay unchanged. */
export async function scrubBytes(body: Buffer, scrub: Scrubber['scrub']): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let isClean = true;
  for (let from = 0; from < body.length; ) {
    if (from > 0) await yieldForRequests();
    const to = endOfChunk(body, from, scrub);
    const text = body.toString('latin1', from, to);
    const clean = scrub(text);
    isClean &&= clean === text;
    chunks.push(clean === text ? body.subarray(from, to) : Buffer.from(clean, 'latin1'));
    from = to;
  }
  return isClean ? body : Buffer.concat(chunks);
}

/** Returns the first possible end of a chunk that no occurrence of a secret crosses. */
function endOfChunk(body: Buffer, from: number, scrub: Scrubber['scrub']): number {
  for (let end = from + CHUNK; end < body.length; end += LONGEST_FORM) {
    const before = body.toString('latin1', end - LONGEST_FORM, end);
    const after = body.toString('latin1', end, end + LONGEST_FORM);
    if (scrub(before + after) === scrub(before) + scrub(after)) return end;
  }
  return body.length;
}
