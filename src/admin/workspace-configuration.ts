import { environmentOf } from '../platform/config/env-file.ts';
import { configSourceOf } from '../platform/config/load.ts';
import { textWithoutSecrets } from '../platform/config/yaml-document.ts';
import { fileReads } from '../platform/lib/regular-files.ts';
import { type EffectiveValue, effectiveConfig, maskOf } from './effective-config.ts';
import type { OpenWorkspace } from './open-workspace.ts';

/**
 * The values of one workspace, each with where it comes from; secrets are masked. Throws where its file cannot be read now.
 *
 * The file may have a secret since a moment ago that nothing in the process has read yet. So what is called like one is
 * masked too, whatever it is.
 */
export async function workspaceConfiguration(
  { config, name }: OpenWorkspace,
  scrub: (text: string) => string,
): Promise<readonly EffectiveValue[]> {
  const values = await fileReads.run((files) =>
    effectiveConfig({ workspaces: [config], flags: {}, env: environmentOf(config.file, files), files, scrub }),
  );
  return values
    .filter(({ of }) => of === name)
    .map((each) => (SECRET.test(each.key) ? { ...each, value: hidden(each.value) } : each));
}

/** Returns the configuration of one workspace as it is written, without its secrets. Throws if its file cannot be read now. */
export async function writtenConfiguration(
  { config, name }: OpenWorkspace,
  scrub: (text: string) => string,
): Promise<string> {
  const source = await fileReads.run((files) =>
    configSourceOf(config, { env: environmentOf(config.file, files).variables, files }),
  );
  return scrub(textWithoutSecrets(source, name));
}

const SECRET = /(?:secret|token|key|password|credential)s?(?:#\d+)?$/i;
const MASKED = /^\*{4}\(/;

function hidden(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(hidden);
  return typeof value === 'string' && !MASKED.test(value) ? maskOf(value) : value;
}
