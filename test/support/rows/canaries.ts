/** Returns the rest of a text after each way of decoding a run of it was tried. */
export function holds(text: string, secret: string): boolean {
  const core = secret.trim();
  const decoded = [text, ...[...text.matchAll(/[A-Za-z0-9+/_=-]{12,}/g)].flatMap(([run]) => everyAlignment(run))];
  return decoded.some((each) => each.includes(core));
}

function everyAlignment(run: string): string[] {
  return [0, 1, 2, 3].flatMap((skip) =>
    (['base64', 'hex'] as const).map((encoding) => Buffer.from(run.slice(skip), encoding).toString()),
  );
}

/** Half a secret is too much too. */
const WINDOW = 8;

/** Says which secrets have pieces in these bytes, and one piece of each. */
export type FindPieces = (bytes: Buffer) => ReadonlyMap<string, string>;

/**
 * Looks for pieces of many secrets at once, in clear, in base64 at any alignment, URL-encoded or in hexadecimal: each is eight
 * characters long, so that no text holds one of a random secret by chance.
 *
 * @param secrets by their name
 */
export function piecesOf(secrets: Iterable<readonly [name: string, secret: string]>): FindPieces {
  const names = new Map<string, string>();
  for (const [name, secret] of secrets) for (const piece of formsOf(secret).flatMap(windowsOf)) names.set(piece, name);
  return (bytes) => {
    const found = new Map<string, string>();
    const text = bytes.toString('latin1');
    for (let at = 0; at + WINDOW <= text.length; at++) {
      const piece = text.slice(at, at + WINDOW);
      const name = names.get(piece);
      if (name !== undefined && !found.has(name)) found.set(name, piece);
    }
    return found;
  };
}

function formsOf(secret: string): string[] {
  const whole = Buffer.from(secret);
  return [
    secret,
    encodeURIComponent(secret),
    whole.toString('hex'),
    whole.toString('hex').toUpperCase(),
    // The part that depends on the secret alone, wherever it stands.
    ...[0, 1, 2].flatMap((shift) => {
      const text = Buffer.concat([Buffer.alloc(shift), whole]).toString('base64');
      const core = text.slice(Math.ceil((shift * 8) / 6), Math.floor(((shift + whole.length) * 8) / 6));
      return [core, core.replaceAll('+', '-').replaceAll('/', '_')];
    }),
  ];
}

/** Digits alone may be any number: in hexadecimal they are four characters of a secret, and its other pieces tell of it. */
function windowsOf(form: string): string[] {
  const all = Array.from({ length: Math.max(0, form.length - WINDOW + 1) }, (_, at) => form.slice(at, at + WINDOW));
  return all.filter((piece) => !/^\d+$/.test(piece));
}
