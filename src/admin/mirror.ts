import type { ServerStatus } from '../store/status-shape.ts';

/** Where the pull requests of a workspace are kept. */
export interface MirrorStatus {
  /** `workspace`: it records them; `here`: only worksync has them; `unknown`: the workspace has not said yet. */
  readonly place: 'workspace' | 'here' | 'unknown';
  /** For people, after "pull requests: ". */
  readonly message: string;
}

type Mirror = 'auto' | 'record' | 'off';

/** @param modes `mirror` of each connection */
export function describeMirror(modes: readonly Mirror[], { records }: Pick<ServerStatus, 'records'>): MirrorStatus {
  if (modes.every((mode) => mode === 'off')) return { place: 'here', message: 'here only: mirror is off' };
  if (records.state === 'open') return { place: 'workspace', message: 'in the workspace' };
  if (records.state === 'closed')
    return { place: 'here', message: 'here only: the workspace has no route to record them' };
  const said = records.error === null ? '' : ` (${records.error})`;
  return { place: 'unknown', message: `here so far: the workspace has not said whether it records them${said}` };
}
