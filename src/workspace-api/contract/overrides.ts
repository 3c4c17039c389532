import { z } from 'zod';
import { parametersOf, type Route } from './route.ts';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
/** The methods of a route that sends a body. A write must never become a deletion. */
const WITH_BODY: readonly string[] = ['POST', 'PUT', 'PATCH'];

/**
 * The configuration of a server with other paths, methods or header names than the page of gaps (`workspace.api`). A path keeps
 * the placeholders of the route it replaces; `{workspaceId}` may be added or left out.
 */
export function overridesOf<Name extends string>(routes: Readonly<Record<Name, Route>>) {
  const names = Object.keys(routes) as Name[];
  const path = z
    .string()
    .regex(/^\/(?!\/)[A-Za-z0-9/_{}.-]*$/, 'must be a path below the base address, starting with /')
    .refine((text) => !/(^|\/)\.\.?(\/|$)/.test(text), 'must not hold . or .. segments');
  const override = z.strictObject({ method: z.enum(METHODS).optional(), path: path.optional() });
  return z.strictObject({
    versionHeader: z
      .string()
      .regex(/^[A-Za-z0-9-]{1,64}$/)
      .optional(),
    links: z
      .enum(['idempotent'])
      .optional()
      .describe(
        '`idempotent`: a link whose address the task has already is not added twice. Absent: worksync reads the links of a task before it adds the first one.',
      ),
    taskUpdate: z
      .enum(['whole', 'fields'])
      .optional()
      .describe(
        '`whole`: the route for changes of a task replaces all of its fields, so worksync reads the task and sends it back changed. `fields`: the route keeps absent fields, so worksync sends the changed fields only. Absent: `whole`; `fields` for the embedded service.',
      ),
    routes: z
      .partialRecord(z.enum(names), override)
      .superRefine((given, context) => {
        for (const name of names) {
          const { path, method } = given[name] ?? {};
          const refuse = (key: string, message: string) =>
            context.addIssue({ code: 'custom', path: [name, key], message });
          if (path !== undefined && !samePlaceholders(path, routes[name].path))
            refuse('path', `must hold the placeholders of ${routes[name].path}`);
          if (method !== undefined && routes[name].body !== undefined && !WITH_BODY.includes(method))
            refuse('method', `must be one of ${WITH_BODY.join(', ')}, because this route sends a body`);
        }
      })
      .optional()
      .describe('Routes of the server that differ, by their names in `openapi.json`.'),
  });
}

function samePlaceholders(left: string, right: string): boolean {
  const names = (path: string) =>
    parametersOf(path)
      .filter((name) => name !== 'workspaceId')
      .sort()
      .join();
  return names(left) === names(right);
}
