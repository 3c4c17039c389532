import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import type { Server, ServerReply } from '../../platform/http/server.ts';
import { BASE_PATH, openApiDocument, versionHeaderOf } from '../../workspace-api/contract.ts';
import { missingRoutes, type Variant } from './variant.ts';

/** The description of the API: public, and reading it uses no quota. */
export const OPENAPI_ADDRESS = `${BASE_PATH}/openapi.json`;

/**
 * `/api/v1/openapi.json` and `/docs`, a page for people made from it. Both are public and count nothing: they hold what
 * the specification says, and nothing of any workspace. The page loads nothing from elsewhere.
 */
export function addReference(server: Server, variant: Variant): void {
  // Made when it is first wanted: it takes longer than the rest of a start.
  const described = { versionHeader: versionHeaderOf(variant.headerPrefix), missing: missingRoutes(variant) };
  const document = lazy(() => JSON.stringify(openApiDocument(described)));
  server.get(OPENAPI_ADDRESS, (_request, reply) => give(reply, 'application/json; charset=utf-8', document()));
  const found = findSwagger();
  if (!found) return;
  server.get('/docs', (_request, reply) => give(reply, 'text/html; charset=utf-8', PAGE));
  server.get('/docs/start.js', (_request, reply) => give(reply, SCRIPT, START));
  const { script, style } = found;
  server.get('/docs/swagger-ui-bundle.js', (_request, reply) => give(reply, SCRIPT, contentsOf(script)));
  server.get('/docs/swagger-ui.css', (_request, reply) => give(reply, 'text/css; charset=utf-8', contentsOf(style)));
}

/**
 * The two files of Swagger UI, each of which holds all it needs. Package and image bring them along; a clone has them with its
 * packages for development, and without those it has no page.
 */
function findSwagger(): { readonly script: string; readonly style: string } | undefined {
  try {
    return {
      script: import.meta.resolve('swagger-ui-dist/swagger-ui-bundle.js'),
      style: import.meta.resolve('swagger-ui-dist/swagger-ui.css'),
    };
  } catch {
    return undefined;
  }
}

/** The package has them packed. */
function contentsOf(address: string): Buffer {
  const content = readFileSync(fileURLToPath(address));
  return address.endsWith('.gz') ? gunzipSync(content) : content;
}

function lazy<Value>(make: () => Value): () => Value {
  let made: Value | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

const SCRIPT = 'text/javascript; charset=utf-8';

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Workspace API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

/** No request is sent from the page, and no key is asked for: keys do not belong into browsers (W17). */
const START = `const none = () => () => null;
SwaggerUIBundle({
  url: ${JSON.stringify(OPENAPI_ADDRESS)},
  dom_id: '#reference',
  deepLinking: true,
  supportedSubmitMethods: [],
  plugins: [{ wrapComponents: { authorizeBtn: none, authorizeOperationBtn: none } }],
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
});
`;

/** Scripts, styles and data come from this server only, and nothing stands in the page itself. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

function give(reply: ServerReply, type: string, body: string | Buffer): ServerReply {
  return reply
    .headers({
      'content-type': type,
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    })
    .send(body);
}
