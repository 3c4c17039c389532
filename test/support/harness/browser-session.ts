/** Credentials that a person gives at `/login`: a token, or the code of a log-in link. */
export type LoginForm = { readonly token: string } | { readonly link: string };

export interface BrowserSession {
  readonly cookie: string;
  /** The token of its pages, which every change wants. */
  readonly token: string;
}

/** @returns the cookie of the session; empty where the login was refused */
export async function cookieOf(origin: string, form: LoginForm): Promise<string> {
  const answer = await fetch(`${origin}/login`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(form),
  });
  return answer.headers.getSetCookie()[0]?.split(';')[0] ?? '';
}

export async function logIn(origin: string, form: LoginForm): Promise<BrowserSession> {
  const cookie = await cookieOf(origin, form);
  const page = await (await fetch(`${origin}/`, { headers: { cookie } })).text();
  return { cookie, token: /name="page" type="hidden" value="([^"]+)"/.exec(page)?.[1] ?? '' };
}
