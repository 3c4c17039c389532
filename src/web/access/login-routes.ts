import type { Server, ServerReply, ServerRequest } from '../../platform/http/server.ts';
import { sendPage } from '../html-document.ts';
import { type AccessOptions, callerOf, formOf } from './access-control.ts';
import { linkPage, loginPage, REFUSALS, type Refusal, refusalPage } from './access-refusals.ts';
import type { Cookie } from './callers.ts';

/** Returns the path of a login link, below the address of the pages. */
export function linkPath(secret: string): string {
  return `/login?link=${secret}`;
}

/** Bytes: a link or a token, and little else. */
const LARGEST_FORM = 4_096;

/**
 * `GET /login` shows a page with a button (`?link=`) or with a field for a token; `POST /login` uses up the link or takes the
 * token, sets the cookie and leads to the status page. `POST /logout` ends the session.
 */
export function loginRoutes(server: Server, options: AccessOptions): void {
  const { sessions, addressed, insecurePages } = options;
  const isSafe = (request: ServerRequest) => insecurePages || addressed(request).isPrivate;

  server.get<{ Querystring: { link?: unknown } }>('/login', { config: { access: 'login' } }, (request, reply) => {
    if (!isSafe(request)) return refuse(reply, 'insecure');
    const { link } = request.query;
    return sendPage(reply, typeof link === 'string' ? linkPage(link) : loginPage());
  });

  server.post('/login', { config: { access: 'login' }, bodyLimit: LARGEST_FORM }, async (request, reply) => {
    if (!isSafe(request)) return refuse(reply, 'insecure');
    const cookie = await logIn(request, options);
    if (typeof cookie === 'string') return refuse(reply, cookie);
    const { isTls } = addressed(request);
    return reply.header('set-cookie', textOf(cookie, isTls)).redirect('/', SEE_OTHER);
  });

  server.post('/logout', { config: { access: 'session', form: true } }, async (request, reply) => {
    const { session } = callerOf(request);
    if (session) await sessions.end(session);
    const { isTls } = addressed(request);
    const gone = { name: sessions.cookieName(isTls), secret: '', maxAge: 0 };
    return reply.header('set-cookie', textOf(gone, isTls)).redirect('/login', SEE_OTHER);
  });
}

/** The browser continues with a GET. */
const SEE_OTHER = 303;

async function logIn(
  request: ServerRequest,
  { callers, sessions, addressed }: AccessOptions,
): Promise<Cookie | Refusal> {
  const { isTls } = addressed(request);
  const form = formOf(request);
  const link = form.get('link');
  if (link !== null) return (await sessions.byLink(link, isTls)) ?? 'spent_link';
  const found = callers.bearer((form.get('token') ?? '').trim(), request.ip);
  if (found === 'limited') return 'too_many';
  return found === 'wrong' ? 'wrong_token' : sessions.byToken(found, isTls);
}

function refuse(reply: ServerReply, code: Refusal): ServerReply {
  const { status, message } = REFUSALS[code];
  return sendPage(reply.code(status), status === 403 ? refusalPage(message) : loginPage(message));
}

function textOf({ name, secret, maxAge }: Cookie, isTls: boolean): string {
  return `${name}=${secret}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${isTls ? '; Secure' : ''}`;
}
