import { z } from 'zod';
import { asBase, HOST, isApiUrl } from '../kit/addresses.ts';

/** A project's number, or its path `group/…/project`; no part may be `.` or `..`, so a URL stays where it belongs. */
export const PROJECT = /^(?:[1-9]\d{0,15}|(?:(?!\.{1,2}\/)[\w.-]{1,255}\/){1,21}(?!\.{1,2}$)[\w.-]{1,255})$/;

export const PUBLIC_HOST = 'gitlab.com';

const project = z
  .union([z.string(), z.int()])
  .transform(String)
  .pipe(
    z
      .string()
      .regex(
        PROJECT,
        'must be one project, as group/project or by its number; patterns and groups are not supported yet',
      ),
  );

export const options = z.strictObject({
  host: z
    .string()
    .toLowerCase()
    .regex(HOST, 'must be a host name alone, for example gitlab.example.com')
    .default(PUBLIC_HOST)
    .describe('Host of the GitLab: gitlab.com, or one that you run.'),
  apiUrl: z
    .string()
    .refine(isApiUrl, 'must be an https address without query (http only on loopback)')
    .optional()
    .describe(
      'Address of the API, where it is not `https://<host>/api/v4`: a GitLab below a path, a proxy, or a test.',
    ),
  token: z
    .string()
    .regex(/^[\x21-\x7e]{1,1000}$/, 'must be one word of printable characters')
    .optional()
    .describe('Project, group or personal access token with the scope `read_api`. Without one only public projects.'),
  projects: z
    .array(project)
    .min(1, 'must name at least one project')
    .describe('Projects as group/project or by number; a number survives renaming. Deliveries of others are ignored.'),
});

export type Options = z.infer<typeof options>;

/** Base of the REST API, without a slash at its end (providers' facts §2.8). */
export function apiBase(given: Pick<Options, 'host' | 'apiUrl'>): string {
  return given.apiUrl === undefined ? derivedBase(given.host) : asBase(given.apiUrl);
}

/** The base that links and redirects of this host name, also when requests go through another address. */
export function derivedBase(host: string): string {
  return `https://${host}/api/v4`;
}
