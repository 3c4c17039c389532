import { z } from 'zod';
import type { HttpClient } from '../../platform/http/http-client.ts';
import { parseAnswer, readAnswer } from '../kit/payload.ts';
import { HEADERS, refusal } from './api.ts';

/** An App to be made: GitHub shows it to a person, who confirms it (GH10). */
export interface AppWish {
  readonly name: string;
  /** Address to which GitHub sends webhooks; absent: none, worksync polls. */
  readonly webhookUrl?: string | undefined;
  /** Address to which GitHub sends the person's browser with the code. */
  readonly redirectUrl: string;
  readonly issues: boolean;
}

const HOMEPAGE = 'https://github.com/apps';

/** The rights and events of `README.md` that reading needs, and no more. */
export function manifestOf({ name, webhookUrl, redirectUrl, issues }: AppWish): object {
  const reviews = ['pull_request_review', 'pull_request_review_comment', 'pull_request_review_thread'];
  return {
    name,
    url: HOMEPAGE,
    redirect_url: redirectUrl,
    public: false,
    default_permissions: { metadata: 'read', pull_requests: 'read', ...(issues && { issues: 'read' }) },
    ...(webhookUrl !== undefined && {
      hook_attributes: { url: webhookUrl, active: true },
      default_events: ['pull_request', ...reviews, ...(issues ? ['issues', 'issue_comment'] : [])],
    }),
  };
}

/** Returns the address to which a form posts the manifest. @param origin of the GitHub, as `https://github.com` */
export function newAppAddress(origin: string, organization: string | undefined, state: string): string {
  const owner = organization === undefined ? '' : `/organizations/${encodeURIComponent(organization)}`;
  return `${origin}${owner}/settings/apps/new?state=${encodeURIComponent(state)}`;
}

const newApp = z.object({
  id: z.int().positive(),
  html_url: z.url(),
  pem: z.string().regex(/-----BEGIN (RSA )?PRIVATE KEY-----/),
  webhook_secret: z.string().min(1).nullish(),
});

/** A code has this form; it goes into a path. */
export const CODE = /^[A-Za-z0-9_-]{1,200}$/;

/** Exchanges the code, once and within an hour (GH10). Throws `not_found` where it was used or is too old. */
export async function takeNewApp(
  { http, now }: { readonly http: HttpClient; readonly now: () => number },
  api: string,
  code: string,
) {
  const what = 'the exchange of the code';
  const url = `${api}/app-manifests/${encodeURIComponent(code)}/conversions`;
  const answer = await http.request({ method: 'POST', url, headers: HEADERS, target: 'github' });
  if (answer.status !== 201) throw refusal(answer, what, now());
  const app = parseAnswer(newApp, readAnswer(answer, what), what);
  return {
    id: String(app.id),
    privateKey: app.pem,
    /** Null where it takes no webhooks. */
    webhookSecret: app.webhook_secret ?? null,
    installUrl: `${app.html_url}/installations/new`,
  };
}
