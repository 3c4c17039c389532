import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { commandEnvironment } from '../../../../src/platform/config/env-file.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';

let folder = '';
/** As people name it, in each of the ways that lead to the same configuration folder. */
let config = '';

beforeEach(() => {
  folder = folderOfTest('env-file');
  config = join(folder, 'config/workspaces');
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, 'team.yaml'), 'connections: {}\n');
});

function writeEnv(text: string, mode = 0o600): string {
  const path = join(folder, '.env');
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

describe('.env', () => {
  it.each(['config', 'config/workspaces', 'config/workspaces/team.yaml'])(
    'is read beside the configuration: %s',
    (given) => {
      const path = writeEnv('TOKEN="a b#c"\nWORKSYNC_PORT=9000\n');
      const { settings, variables, file } = commandEnvironment({ config: join(folder, given) }, {});
      expect(file).toEqual({ path, used: ['TOKEN', 'WORKSYNC_PORT'], overridden: [], warnings: [] });
      expect(variables).toEqual({ TOKEN: 'a b#c', WORKSYNC_PORT: '9000' });
      // Only WORKSYNC_* reaches settings, and nothing reaches the process.
      expect(settings).toEqual({ WORKSYNC_PORT: '9000' });
      expect(process.env).not.toHaveProperty('WORKSYNC_PORT');
    },
  );

  it('yields to the environment, also where that names a file with the value', () => {
    writeEnv('TOKEN=file\nKEY=file\nOTHER_FILE=/file\nEMPTY=file\n');
    const env = { TOKEN: 'own', KEY_FILE: '/own', OTHER: 'own', EMPTY: '' };
    const { variables, file } = commandEnvironment({ config }, env);
    expect(variables).toEqual({ ...env, EMPTY: 'file' });
    expect(file).toMatchObject({ used: ['EMPTY'], overridden: ['KEY', 'OTHER_FILE', 'TOKEN'] });
  });

  it('is not read for a configuration in a variable, nor where it is a folder', () => {
    writeEnv('TOKEN=x\n');
    const env = { WORKSYNC_CONFIG_YAML: 'connections: {}' };
    expect(commandEnvironment({}, env)).toEqual({ settings: env, variables: env });
    mkdirSync(join(folder, 'config/.env'));
    expect(commandEnvironment({ config: join(folder, 'config/other/x.yaml') }, {}).file).toBeUndefined();
  });

  it.each(['NODE_OPTIONS', 'npm_config_registry', 'HTTPS_PROXY', 'no_proxy', 'SSL_CERT_FILE', 'WORKSYNC_CONFIG'])(
    'refuses %s with its line',
    (name) => {
      const path = writeEnv(`A=1\n\nexport ${name}=x\n`);
      expect(() => commandEnvironment({ config }, {})).toThrow(`${path}:3: ${name} cannot be set in .env`);
    },
  );

  it('is refused where others may write it, and warns where they may read it', () => {
    const path = writeEnv('A=1\n', 0o646);
    expect(() => commandEnvironment({ config }, {})).toThrow(`${path}: everybody may write to it (mode 0646)`);
    writeEnv('A=1\n', 0o644);
    const { file } = commandEnvironment({ config }, {});
    expect(file?.warnings).toEqual([`everybody may read ${path} (mode 0644); set its mode to 0600`]);
  });
});
