import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type Plugin, rolldown } from 'rolldown';
import { OLDEST_NODE } from '../src/platform/lib/oldest-node.ts';
import { commitOf } from '../src/platform/lib/own-program.ts';
import { readLock, readManifest, TOP } from './supply/lock.ts';
import { sbomOf } from './supply/sbom.ts';

/**
 * `npm run build`: the package as npm gets it, in `dist/`. Its code is bundled into chunks, because Node loads a few large files
 * faster than hundreds of small ones; what `import()` names is a chunk of its own. Names stay readable, for stack traces.
 */
const DIST = join(TOP, 'dist');

/** The files that the program reads beside its code: the default configuration, and the pages of `/help/`. */
const DATA = [
  'LICENSE',
  'README.md',
  'config/*.{json,md,yaml}',
  'config/examples/*',
  'config/deploy/*.{md,service,yaml}',
  'src/workspace-api/contract.md',
  'src/workspace-api/client/README.md',
  'src/connectors/*/README.md',
  'src/web/assets/*',
];

/** `new URL('./x.ts', import.meta.url)` names the program of a thread: it becomes a file of its own beside the chunks. */
const threads: Plugin = {
  name: 'threads',
  transform(code, id) {
    return code.replace(/new URL\('(\.\/[\w-]+)\.ts', import\.meta\.url\)/g, (_match, path: string) => {
      const fileName = `${basename(path)}.js`;
      this.emitFile({ type: 'chunk', id: join(dirname(id), `${path}.ts`), fileName });
      return `new URL('./${fileName}', import.meta.url)`;
    });
  },
};

/** Files of a package that nobody installs for them: they lie beside the chunks, packed, with its licence. */
const assets: Plugin = {
  name: 'assets',
  transform(code) {
    return code.replace(/import\.meta\.resolve\('([\w-]+)\/([\w.-]+)'\)/g, (_match, name: string, file: string) => {
      const read = (each: string) => readFileSync(join(TOP, 'node_modules', name, each));
      for (const each of ['LICENSE', 'NOTICE'])
        this.emitFile({ type: 'asset', fileName: `${name}/${each}`, source: read(each) });
      this.emitFile({ type: 'asset', fileName: `${name}/${file}.gz`, source: gzipSync(read(file), { level: 9 }) });
      return `new URL('./${name}/${file}.gz', import.meta.url).href`;
    });
  },
};

async function buildCode(): Promise<void> {
  const bundle = await rolldown({
    cwd: TOP,
    input: { main: 'src/main.ts', client: 'src/workspace-api/client/client.ts' },
    // Packages are installed beside it.
    external: /^(?!\.|\/|src\/)/,
    platform: 'node',
    transform: { target: `node${OLDEST_NODE}` },
    plugins: [threads, assets],
  });
  const { output } = await bundle.write({
    dir: join(DIST, 'lib'),
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    // The source has them.
    comments: false,
  });
  await bundle.close();
  const { dependencies } = readManifest();
  for (const { fileName, imports } of output.filter((part) => part.type === 'chunk')) {
    const foreign = imports.filter((name) => !/^node:|\.js$/.test(name) && !(packageOf(name) in dependencies));
    if (foreign.length > 0) throw new Error(`${fileName} imports what nobody installs: ${foreign.join(', ')}`);
  }
  chmodSync(join(DIST, 'lib/main.js'), 0o755);
}

function packageOf(name: string): string {
  return name.split('/', name.startsWith('@') ? 2 : 1).join('/');
}

/** The types of `worksync/client`, and of what it names. */
function buildTypes(): void {
  execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '--project', '.ci/types.json'], { cwd: TOP });
  for (const path of globSync('types/**/*.d.ts', { cwd: DIST })) {
    const file = join(DIST, path);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace(/(from '|import\(")(\.[^'"]*)\.ts(?=['"])/g, '$1$2.js'));
  }
}

function copyData(): void {
  for (const path of globSync(DATA, { cwd: TOP })) {
    mkdirSync(dirname(join(DIST, path)), { recursive: true });
    // Programs read these; the repository has them for people.
    if (path.endsWith('.json')) writeFileSync(join(DIST, path), JSON.stringify(readJson(path)));
    else if (path.endsWith('.md'))
      writeFileSync(join(DIST, path), withoutPadding(readFileSync(join(TOP, path), 'utf8')));
    else cpSync(join(TOP, path), join(DIST, path));
  }
}

/** Takes the spaces and dashes out of tables that align their columns. */
function withoutPadding(markdown: string): string {
  return markdown.replaceAll(/^\|.*\|$/gm, (row) => row.replaceAll(/ +\|/g, ' |').replaceAll(/-{4,}/g, '---'));
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(join(TOP, path), 'utf8'));
}

/** Without scripts, and without the Node and the tools that an install of the repository brings. */
function writeManifest(): void {
  const { version, description, license, type, dependencies } = readManifest();
  const manifest = {
    name: 'worksync',
    // The release names the package after the owner of the repository; without a scope it must not be published.
    private: true,
    version,
    gitHead: commitOf(TOP),
    description,
    license,
    type,
    engines: { node: `>=${OLDEST_NODE}` },
    bin: { worksync: 'lib/main.js' },
    exports: {
      './client': { types: './types/workspace-api/client/client.d.ts', default: './lib/client.js' },
      './package.json': './package.json',
    },
    dependencies,
  };
  writeFileSync(join(DIST, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
}

function writeSbom(): void {
  writeFileSync(join(DIST, 'sbom.cdx.json'), JSON.stringify(sbomOf(readManifest(), readLock())));
}

rmSync(DIST, { recursive: true, force: true });
await buildCode();
buildTypes();
copyData();
writeManifest();
writeSbom();
