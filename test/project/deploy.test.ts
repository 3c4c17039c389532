import { globSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parseAllDocuments, parseDocument } from 'yaml';
import { COMMAND_FILES } from '../../src/cli/program.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { CODES } from '../../src/model/errors.ts';
import { CONFIG_TEXT, DAEMON_OPTIONS, daemonOptions } from '../../src/platform/config/daemon-options.ts';
import { loadConfig } from '../../src/platform/config/load.ts';
import { isMemoryFolder } from '../../src/platform/lib/folders.ts';
import { apiOverrides } from '../../src/workspace-api/contract.ts';
import { commandLine } from '../support/harness/command-line.ts';
import { environmentOf, execForm, readDockerfile } from '../support/harness/dockerfile.ts';

// biome-ignore lint/suspicious/noExplicitAny: manifests have no types here, and a wrong path fails the test.
type Loose = any; // oxlint-disable-line typescript/no-explicit-any
const TOP = join(import.meta.dirname, '../..');
const image = readDockerfile(join(TOP, 'Dockerfile'));
const textOf = (keyword: string) => image.findLast((instruction) => instruction.keyword === keyword)?.text ?? '';
const FOLDER = join(TOP, 'config/deploy');

function documentOf(name: string): Loose {
  const document = parseDocument(readFileSync(join(FOLDER, name), 'utf8'));
  expect([...document.errors, ...document.warnings]).toEqual([]);
  return document.toJS();
}

const documents = parseAllDocuments(readFileSync(join(TOP, 'config/deploy/kubernetes.yaml'), 'utf8'));
const manifests = documents.map((document) => document.toJS() as { kind: string; spec?: Loose; data?: Loose });
const ofKind = (kind: string) => manifests.find((manifest) => manifest.kind === kind);

it('the Kubernetes manifests run the image as it is meant: one replica, its user, no rights [A16]', () => {
  expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
  const { replicas, strategy, template } = ofKind('Deployment')?.spec ?? {};
  expect([replicas, strategy]).toEqual([1, { type: 'Recreate' }]);
  const { securityContext, containers, volumes } = template.spec;
  const user = image.findLast(({ keyword }) => keyword === 'USER')?.text;
  expect(`${securityContext.runAsUser}:${securityContext.runAsGroup}`).toBe(user);
  expect(securityContext.runAsNonRoot).toBe(true);
  const [container] = containers;
  expect(container.securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
  const env = environmentOf(image);
  expect(String(container.ports[0].containerPort)).toBe(env['WORKSYNC_PORT']);
  const mounts = container.volumeMounts as { name: string; mountPath: string }[];
  const folders = [env['WORKSYNC_CONFIG'], '/secrets', env['WORKSYNC_DATA']];
  expect(mounts.map(({ mountPath }) => mountPath)).toEqual(folders);
  expect(mounts.map(({ name }) => name)).toEqual((volumes as { name: string }[]).map(({ name }) => name));
  expect([container.livenessProbe, container.readinessProbe].map(({ httpGet }) => httpGet.path)).toEqual([
    '/livez',
    '/readyz',
  ]);
});

it('the pod that restores a backup has the image, the user, the rights and the volume of the deployment', () => {
  const page = readFileSync(join(TOP, 'config/operating.md'), 'utf8');
  const text = /<<'EOF'\n(.*?)\nEOF/s.exec(page)?.[1] ?? '';
  const { spec } = parseDocument(text, { strict: true }).toJS() as Loose;
  const { spec: deployed } = ofKind('Deployment')?.spec.template ?? {};
  expect(spec.securityContext).toEqual(deployed.securityContext);
  const [[restoring], [running]] = [spec.containers, deployed.containers];
  expect([restoring.image, restoring.securityContext]).toEqual([running.image, running.securityContext]);
  expect(running.volumeMounts).toEqual(expect.arrayContaining(restoring.volumeMounts));
  expect(deployed.volumes).toEqual(expect.arrayContaining(spec.volumes));
});

it('the Kubernetes manifests take secrets from files, and bring limits and a network policy', () => {
  const [container] = ofKind('Deployment')?.spec.template.spec.containers ?? [];
  const config = String(Object.values(ofKind('ConfigMap')?.data ?? {})[0]);
  const named = Array.from(config.matchAll(/\$\{(\w+)\}/g), ([, name]) => name);
  // Files change without a restart; applied again, a secret in the manifest would lose its values.
  expect(container.env).toEqual(named.map((name) => ({ name: `${name}_FILE`, value: `/secrets/${name}` })));
  expect(ofKind('Secret')).toBeUndefined();
  expect(container.resources).toMatchObject({ requests: { memory: '192Mi' }, limits: { memory: '512Mi' } });
  expect(ofKind('NetworkPolicy')?.spec.policyTypes).toEqual(['Ingress', 'Egress']);
  expect(config).toContain('poll: 15m');
});

it('several replicas run as one does, and keep their rows in PostgreSQL', () => {
  const all = parseAllDocuments(readFileSync(join(FOLDER, 'kubernetes-replicas.yaml'), 'utf8'));
  expect(all.flatMap(({ errors }) => errors)).toEqual([]);
  const several = all.map((document) => document.toJS()).find(({ kind }) => kind === 'Deployment').spec;
  const one = ofKind('Deployment')?.spec;
  expect(several.replicas).toBeGreaterThan(2);
  const [container] = several.template.spec.containers;
  const [alone] = one.template.spec.containers;
  const { env, volumeMounts, ...same } = container;
  const { env: files, volumeMounts: mounts, ...rest } = alone;
  expect(same).toEqual(rest);
  expect(env.slice(-files.length)).toEqual(files);
  expect(volumeMounts).toEqual(mounts.slice(0, 2));
  const variables = Object.fromEntries(env.map(({ name, value }: Loose) => [name, value]));
  expect(isMemoryFolder(daemonOptions({}, { WORKSYNC_DATA: variables['WORKSYNC_DATA'] }).data)).toBe(true);
  expect(variables['WORKSYNC_REPLICA_ADDRESS']).toBe(`http://$(POD_IP):${textOf('EXPOSE')}`);

  const { services, secrets } = documentOf('compose-replicas.yaml');
  const { environment, ...service } = services.worksync;
  const { environment: _env, ports, volumes: _volumes, ...compared } = documentOf('compose.yaml').services.worksync;
  expect(service).toMatchObject({
    ...compared,
    volumes: [`../workspaces:${environmentOf(image)['WORKSYNC_CONFIG']}:ro`],
  });
  expect(service.deploy.replicas).toBeGreaterThan(2);
  expect(isMemoryFolder(daemonOptions({}, { WORKSYNC_DATA: environment.WORKSYNC_DATA }).data)).toBe(true);
  expect(new Set(Object.keys(secrets))).toEqual(new Set([...service.secrets, ...services.postgres.secrets]));
  expect(services.proxy.ports).toHaveLength(ports.length);
});

it('the network policies let replicas reach each other and PostgreSQL, and keep all others out', () => {
  const policyOf = (name: string) =>
    parseAllDocuments(readFileSync(join(FOLDER, name), 'utf8'))
      .map((document) => document.toJS() as Loose)
      .find(({ kind }) => kind === 'NetworkPolicy').spec;
  const [alone, several] = ['kubernetes.yaml', 'kubernetes-replicas.yaml'].map(policyOf);
  const replicas = { podSelector: alone.podSelector };
  expect(several.ingress).toEqual([{ ...alone.ingress[0], from: [replicas, ...alone.ingress[0].from] }]);
  const port = Number(textOf('EXPOSE'));
  expect(several.egress).toEqual([
    { to: [replicas], ports: [{ port, protocol: 'TCP' }] },
    { ports: [...alone.egress[0].ports, { port: 5432, protocol: 'TCP' }] },
  ]);
});

it('the compose service runs the image as it is meant [A16]', () => {
  const { services, volumes } = documentOf('compose.yaml');
  const service = services.worksync;
  expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] });
  const env = environmentOf(image);
  expect(service.ports).toEqual([`127.0.0.1:8080:${env['WORKSYNC_PORT']}`]);
  expect(service.healthcheck.test).toEqual(['CMD', ...execForm(textOf('HEALTHCHECK'))]);
  // An empty folder must not run the demo: vendors would get 404.
  expect(service.environment).toEqual({ WORKSYNC_CONFIG: `\${WORKSYNC_CONFIG:-${env['WORKSYNC_CONFIG']}}` });
  expect(service.env_file).toEqual([{ path: '../../.env', required: false }]);
  expect(service.build).toBe('../..');
  expect(service.volumes).toEqual([
    `../workspaces:${env['WORKSYNC_CONFIG']}:ro`,
    `${Object.keys(volumes)[0]}:${env['WORKSYNC_DATA']}`,
  ]);
});

/** A container of one of the files: with the image that it runs, and what takes rights away from it. */
interface Contained {
  readonly image: string;
  readonly rights: Loose;
}

/** All containers of a file, in whatever form its tool wants them. */
function containersOf(name: string): readonly Contained[] {
  const all = parseAllDocuments(readFileSync(join(FOLDER, name), 'utf8')).map((each) => each.toJS() as Loose);
  return all.flatMap((file) => {
    const pod = file?.spec?.template?.spec;
    const ofPod = [...(pod?.containers ?? []), ...(pod?.initContainers ?? [])].map((each: Loose) => ({
      image: each.image,
      rights: { ...pod.securityContext, ...each.securityContext },
    }));
    const services = Object.values(file?.services ?? {}).map((each: Loose) => ({
      image: each.image,
      rights: {
        readOnlyRootFilesystem: each.read_only,
        capabilities: { drop: each.cap_drop },
        allowPrivilegeEscalation: !each.security_opt?.includes('no-new-privileges:true'),
      },
    }));
    const jobs = Object.values(file?.jobs ?? {}) as Loose[];
    const ofJobs = jobs.flatMap((job) => Object.values(job.services ?? {}).map((each) => byOptions(each)));
    // The runner of GitHub writes files of its own into the container that a job itself runs in.
    const own = jobs.flatMap(({ container }) => (container ? [byOptions(container, true)] : []));
    return [...ofPod, ...services, ...ofJobs, ...own];
  });
}

/** As flags of Docker. */
function byOptions({ image: run, options = '' }: Loose, isReadOnly = options.includes('--read-only')): Contained {
  const rights = {
    readOnlyRootFilesystem: isReadOnly,
    capabilities: { drop: [/--cap-drop (\S+)/.exec(options)?.[1]] },
    allowPrivilegeEscalation: !options.includes('--security-opt no-new-privileges'),
  };
  return { image: run, rights };
}

/** Tools in whose files nobody can say what rights a container has. */
const WITHOUT_RIGHTS = [
  ...['bitbucket-pipelines-service.yaml', 'bitbucket-pipelines.yaml'],
  ...['gitlab-ci-service.yaml', 'gitlab-ci.yaml'],
];
const OURS = /^(?:worksync:|\$WORKSYNC_IMAGE$|\$\{\{ vars\.WORKSYNC_IMAGE \}\}$)/;

it('each file that runs the image takes its rights away, and mounts nothing of the machine into it [A16]', () => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.yaml'));
  const running = files.filter((name) =>
    /(?:image|name): (?:worksync:|\$WORKSYNC_IMAGE|\$\{\{ vars)/.test(readFileSync(join(FOLDER, name), 'utf8')),
  );
  const found = running.map((name) => [name, containersOf(name).filter(({ image: run }) => OURS.test(run))] as const);
  const without = found.filter(([, containers]) => containers.length === 0).map(([name]) => name);
  expect(without).toEqual(WITHOUT_RIGHTS);
  for (const [name, containers] of found)
    for (const { rights } of containers)
      expect([name, rights]).toEqual([
        name,
        expect.objectContaining({
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
          allowPrivilegeEscalation: false,
        }),
      ]);
  for (const name of running) {
    const text = readFileSync(join(FOLDER, name), 'utf8').replaceAll(/#.*$/gm, '');
    const gives =
      /privileged|cap_add|host(?:Network|PID|IPC|Path)|network_mode|docker\.sock|pid: *host|userns|seccomp[=:]unconfined|apparmor[=:]unconfined/i;
    expect([name, gives.exec(text)?.[0]]).toEqual([name, undefined]);
  }
});

it('the service of GitHub Actions runs the image as it is meant', () => {
  const { services, steps } = documentOf('github-actions-service.yaml').jobs.sync;
  const { ports, options } = services.worksync;
  expect(ports).toEqual([`8080:${textOf('EXPOSE')}`]);
  const check = execForm(textOf('HEALTHCHECK')).join(' ');
  for (const option of [`--health-cmd "${check}"`, '--read-only', '--cap-drop ALL', '--security-opt no-new-privileges'])
    expect(options).toContain(option);
  expect(steps[0].run).toContain('docker exec $' + '{{ job.services.worksync.id }} worksync wait');
});

it('the jobs of GitLab and Bitbucket reach the service at the port that the image exposes', () => {
  const gitlab = documentOf('gitlab-ci-service.yaml');
  const bitbucket = documentOf('bitbucket-pipelines-service.yaml');
  expect(gitlab.sync.image.entrypoint).toEqual(['']);
  const [{ step }] = bitbucket.pipelines['pull-requests']['**'];
  expect(step.services).toEqual(Object.keys(bitbucket.definitions.services));
  const host = gitlab.build.services[0].alias as string;
  const asked = [...gitlab.build.script, ...step.script].map((line: string) => /http:\/\/(\S+?)\//.exec(line)?.[1]);
  const port = textOf('EXPOSE');
  expect(asked).toEqual([`${host}:${port}`, `${host}:${port}`, `localhost:${port}`, `localhost:${port}`]);
});

const CREDENTIALS = ['WORKSYNC_API_KEY', 'GITHUB_TOKEN', 'GITLAB_TOKEN', 'BITBUCKET_TOKEN', 'GITHUB_WEBHOOK_SECRET'];
const given = {
  env: Object.fromEntries(CREDENTIALS.map((name) => [name, `${name}-of-some-length`])),
  ...{ connectors, apiOverrides },
};

it.each([
  ['github-actions-service.yaml', (file: Loose) => file.jobs.sync.services.worksync.env],
  [
    'gitlab-ci-service.yaml',
    (file: Loose) => ({ ...file.variables, WORKSYNC_CONFIG_YAML: file.variables.WORKSYNC_CONFIG_YAML.value }),
  ],
  ['bitbucket-pipelines-service.yaml', (file: Loose) => file.definitions.services.worksync.variables],
])('%s gives a right configuration by variables alone, and keeps the data in memory', (name, variablesOf) => {
  const variables = variablesOf(documentOf(name)) as Record<string, string>;
  const { workspaces } = loadConfig({ text: variables['WORKSYNC_CONFIG_YAML'], ...given });
  expect(workspaces.map((workspace) => workspace.name)).toEqual(['ci']);
  expect(workspaces[0]?.connections).toHaveLength(1);
  expect(isMemoryFolder(daemonOptions({}, variables).data)).toBe(true);
});

it('the systemd unit runs what ends as it says, with no more rights than it needs', () => {
  const lines = readFileSync(join(FOLDER, 'worksync.service'), 'utf8').split('\n');
  const settingOf = (key: string) => lines.find((line) => line.startsWith(`${key}=`))?.slice(key.length + 1);
  const exits = settingOf('RestartPreventExitStatus')?.split(' ').map(Number);
  expect(exits).toEqual([CODES.usage.exit, CODES.unauthorized.exit, CODES.config_invalid.exit]);
  const hardened = {
    NoNewPrivileges: 'yes',
    ProtectSystem: 'strict',
    CapabilityBoundingSet: '',
    StateDirectory: 'worksync',
  };
  for (const [key, value] of Object.entries(hardened)) expect([key, settingOf(key)]).toEqual([key, value]);
  // `.env` is then in the folder that its comment names.
  const [, config] = /WORKSYNC_CONFIG=(\S+)/.exec(settingOf('Environment') ?? '') ?? [];
  expect(config).toBe('/etc/worksync/config/workspaces');
});

it('each file names variables, commands and flags that exist', () => {
  const sources = globSync('src/{cli,platform/config,admin}/**/*.ts', { cwd: TOP }).map((file) =>
    readFileSync(join(TOP, file), 'utf8'),
  );
  const known = (name: string) => sources.some((text) => text.includes(`'${name}`));
  // The name of the image is a variable of the CI service.
  const examples = globSync('config/examples/*.yaml', { cwd: TOP }).map((file) =>
    readFileSync(join(TOP, file), 'utf8'),
  );
  const ofExamples = examples.flatMap((text) => Array.from(text.matchAll(/\$\{(\w+)\}/g), ([, name = '']) => name));
  const names = new Set([
    ...CREDENTIALS,
    ...ofExamples,
    ...DAEMON_OPTIONS.map(({ env }) => env),
    CONFIG_TEXT,
    'WORKSYNC_IMAGE',
  ]);
  const commands = COMMAND_FILES.flatMap((file) => file.names);
  for (const name of readdirSync(FOLDER).filter((file) => !/^worksync$|json$/.test(file))) {
    const text = readFileSync(join(FOLDER, name), 'utf8');
    const variables = [...text.matchAll(/\b(?:WORKSYNC|GITHUB|GITLAB|BITBUCKET)_[A-Z_]+\b/g)].map(([each]) =>
      each.replace(/_FILE$/, ''),
    );
    expect(
      variables.filter((each) => !names.has(each) && !known(`${each}'`)),
      `variables of ${name}`,
    ).toEqual([]);
    const used = [...text.matchAll(/(?<![\w./-])worksync ([a-z]+)((?: --\w[\w-]*(?: [\w:]+)?)*)/g)];
    if (!/actions-|gitlab-ci-|service$/.test(name)) continue;
    expect(used.length, `commands of ${name}`).toBeGreaterThan(0);
    for (const [, command = '', flags = ''] of used) {
      expect(commands, `command of ${name}`).toContain(command);
      for (const [flag] of flags.matchAll(/--[\w-]+/g)) expect(known(flag), `${flag} of ${name}`).toBe(true);
    }
  }
});

it('the workspace file of the Kubernetes manifests is right', () => {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-deploy-'));
  for (const [name, text] of Object.entries(ofKind('ConfigMap')?.data)) writeFileSync(join(folder, name), String(text));
  const { workspaces, broken } = loadConfig({ path: folder, ...given });
  rmSync(folder, { recursive: true });
  expect([workspaces.map(({ name }) => name), broken]).toEqual([['team'], []]);
});

it.each([
  ['github-actions.yaml', (file: Loose) => file.jobs.tasks.steps[0].run],
  ['gitlab-ci.yaml', (file: Loose) => file.tasks.script[0]],
  ['bitbucket-pipelines.yaml', (file: Loose) => file.pipelines['pull-requests']['**'][0].step.script[0]],
])('%s runs a command that there is', async (name, lineOf: (file: Loose) => string) => {
  const [program, ...words] = lineOf(documentOf(name)).split(' ');
  expect(program).toBe('worksync');
  // Understood, and stopped for want of an address alone.
  const { code, stderr } = await commandLine(...words, '--pull-request', 'acme/app#7');
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining('the address of the daemon is missing'),
  });
});
