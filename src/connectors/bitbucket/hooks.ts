import { z } from 'zod';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Hooks } from '../connector.ts';
import { hookPlaces, hooksOfPlaces } from '../kit/hooks.ts';
import { absent, parseAnswer, readAnswer } from '../kit/payload.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import { type Repositories, repositoryPath, unitOf } from './repositories.ts';
import { uuid } from './schema.ts';

/** Events that change a pull request. Approvals and comments do not; a webhook that sends them keeps them. */
const EVENTS = ['pullrequest:created', 'pullrequest:updated', 'pullrequest:fulfilled', 'pullrequest:rejected'];

const hook = z.object({
  uuid,
  url: z.string(),
  active: z.boolean(),
  events: z.array(z.string()),
  description: absent(z.string()),
  secret_set: absent(z.boolean()),
  skip_cert_verification: absent(z.boolean()),
});
type Hook = z.infer<typeof hook>;

/** The webhooks of a connection: one for each workspace that is followed whole, one for each other repository. */
export function createHooks(api: Api, options: Options, repositories: Repositories): Hooks {
  const owners = options.workspaces.map((name) => ({ subject: name, path: `/workspaces/${name}/hooks` }));
  const { listed } = repositories;
  return hooksOfPlaces<Hook>({
    placesOf: (signal) =>
      hookPlaces(owners, { scope: scopeOf(options), listed, unitOf, pathOf: repositoryPath }, signal),
    async find({ path }, url, signal) {
      for await (const page of api.pages(hook, path, { query: 'pagelen=100', signal })) {
        const found = page.find((each) => each.url === url);
        if (found) return found;
      }
      return undefined;
    },
    hidden: ['forbidden', 'not_found', 'unauthorized'],
    hints: {
      hidden: 'Give the token the scope `webhook` so that worksync can check webhooks.',
      repair: 'Run "worksync hooks install", or repair it at Bitbucket.',
    },
    nameOf: () => 'the webhook',
    isOn: ({ active }) => active,
    flawsOf,
    async save({ path }, found, { url, secret }, signal) {
      const wanted = { description: 'worksync', url, active: true, events: EVENTS, secret };
      if (!found) return read(await api.write('POST', path, { body: wanted, signal }), `POST ${path}`);
      const { description, skip_cert_verification } = found;
      // The secret cannot be read back, so it is always sent. The others are sent back, as Bitbucket might reset them.
      const body = {
        ...wanted,
        description,
        events: [...new Set([...found.events, ...EVENTS])],
        skip_cert_verification,
      };
      const own = `${path}/${encodeURIComponent(found.uuid)}`;
      return read(await api.write('PUT', own, { body, signal }), `PUT ${own}`);
    },
  });
}

function read(answer: HttpAnswer, what: string): Hook {
  return parseAnswer(hook, readAnswer(answer, what), what);
}

/** Bitbucket does not show whether the secret is correct. */
function flawsOf({ events, secret_set }: Hook): readonly string[] {
  const missing = EVENTS.filter((event) => !events.includes(event));
  return [
    ...(missing.length > 0 ? [`does not send ${missing.join(', ')}`] : []),
    ...(secret_set === false ? ['has no secret, so worksync refuses every delivery'] : []),
  ];
}
