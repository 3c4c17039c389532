/** Replaces the values of secrets in any text that leaves the process. */
export interface Scrubber {
  /** From now on this value is replaced too. A value of several lines is also known by its lines. */
  add(secret: string): void;
  scrub(text: string): string;
}

/** Stands where a secret stood. */
const MARK = '[secret]';

/** A shorter value would blot out ordinary words; the configuration refuses such a secret. */
const SHORTEST = 4;

/** A fragment of an encoded form that is shorter than this may appear by chance. */
const SHORTEST_FRAGMENT = 8;

/**
 * Knows each secret as it is, as JSON (up to thrice: a body within a message within the line), URL-encoded, in hexadecimal, and in base64 and base64url at all
 * three alignments, since a secret inside `user:secret` is encoded from another byte on.
 */
export function createScrubber(secrets: readonly string[] = []): Scrubber {
  const forms = new Set<string>();
  let pattern: RegExp | undefined;
  const add = (secret: string) => {
    for (const part of partsOf(secret)) for (const form of formsOf(part)) forms.add(form);
    pattern = undefined;
  };
  for (const secret of secrets) add(secret);
  return {
    add,
    scrub(text) {
      if (forms.size === 0) return text;
      pattern ??= anyOf(forms);
      return text.replace(pattern, MARK);
    },
  };
}

/** A private key is one secret, and so is every line of it that is not its frame. */
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

/** The characters of each alignment that depend on the secret alone, whatever stands before and after it. */
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

/** Longest first, so that no form leaves the tail of a longer one behind. */
function anyOf(forms: ReadonlySet<string>): RegExp {
  const longestFirst = [...forms].sort((a, b) => b.length - a.length);
  return new RegExp(longestFirst.map((form) => RegExp.escape(form)).join('|'), 'g');
}
