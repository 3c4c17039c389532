import { join } from 'node:path';
import { createConnector, Refused } from './create.ts';

/** `npm run new:connector <id>`: exit code 2 where the id cannot be used, and nothing was written then. */
const [id = ''] = process.argv.slice(2);
try {
  const paths = createConnector(join(import.meta.dirname, '../../..'), id);
  process.stdout.write(`${paths.map((path) => `  ${path}\n`).join('')}
A tracker that nobody runs yet, whose tests pass:

  npm test -- test/contracts -t ${id}

Now make it the vendor's, by src/connectors/README.md.
`);
} catch (thrown) {
  if (!(thrown instanceof Refused)) throw thrown;
  process.stderr.write(`${thrown.message}\n`);
  process.exitCode = 2;
}
