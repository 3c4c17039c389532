/** What is left of a text when every way of decoding a run of it has been tried. */
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

/**
 * The pieces of a secret that stand in these bytes, in clear, in base64 at any alignment, URL-encoded or in hexadecimal:
 * each is eight characters long, so that no text holds one of a random secret by chance.
 */
export function piecesIn(bytes: Buffer, secret: string): string[] {
  const whole = Buffer.from(secret);
  const forms = [
    secret,
    encodeURIComponent(secret),
    whole.toString('hex'),
    whole.toString('hex').toUpperCase(),
    // What depends on the secret alone, wherever it stands.
    ...[0, 1, 2].flatMap((shift) => {
      const text = Buffer.concat([Buffer.alloc(shift), whole]).toString('base64');
      const core = text.slice(Math.ceil((shift * 8) / 6), Math.floor(((shift + whole.length) * 8) / 6));
      return [core, core.replaceAll('+', '-').replaceAll('/', '_')];
    }),
  ];
  const windows = new Set(forms.flatMap((form) => windowsOf(form)));
  return [...windows].filter((piece) => bytes.includes(piece));
}

function windowsOf(form: string): string[] {
  return Array.from({ length: Math.max(0, form.length - WINDOW + 1) }, (_, at) => form.slice(at, at + WINDOW));
}
