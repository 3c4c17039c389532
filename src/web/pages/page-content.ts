import { type AdminOperation, type Answered, type Asked, runAdminOperation } from '../../admin/admin-operations.ts';
import type { EffectiveValue } from '../../admin/installation/effective-config.ts';
import type { Actor, OpenWorkspace } from '../../admin/open-workspace.ts';
import type { ProcessStatus, WorkspaceStatus } from '../../admin/status/status.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Caller } from '../access/callers.ts';
import { html, type Markup } from '../html.ts';

export interface PageContext {
  readonly caller: Caller;
  /** Parameters of the address; of several with one name, the last. */
  readonly query: ReadonlyMap<string, string>;
  readonly clock: Clock;
  readonly now: number;
  /** The process that all workspaces share. */
  readonly process: ProcessStatus;
  readonly daemonOptions: () => Promise<readonly EffectiveValue[]>;
  /** Removes the secrets from an answer of a use case before it is shown. */
  readonly clean: <Value>(value: Value) => Value;
  readonly scrub: (text: string) => string;
}

export interface WorkspacePageContext extends PageContext {
  readonly partition: OpenWorkspace;
  readonly status: WorkspaceStatus;
  /** The name of the workspace if commands must give it, because there are several. */
  readonly named: string | undefined;
}

/** A part of a page that is replaced alone when it has changed. */
export interface Part {
  readonly id: string;
  readonly body: Markup;
  /** Whether it has fields that people fill, so that it is not replaced. */
  readonly isForm?: true;
}

export interface PageContent {
  readonly title: string;
  readonly parts: readonly Part[];
  readonly status?: number;
}

/** Builds a page of a workspace. Throws `not_found` if its subject does not exist. */
export type WorkspacePage = (context: WorkspacePageContext) => Promise<PageContent> | PageContent;

/** The address of a page of a workspace; parameters that are absent are left out. */
export function pathOf(
  workspace: string,
  page: string,
  parameters: Readonly<Record<string, string | number | undefined>> = {},
): string {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, String(value)]],
  );
  const query = new URLSearchParams(given).toString();
  const path = `/workspaces/${encodeURIComponent(workspace)}${page === '' ? '' : `/${page}`}`;
  return query === '' ? path : `${path}?${query}`;
}

/** A link to a page of a workspace. */
export function linkTo(
  workspace: string,
  page: string,
  parameters: Readonly<Record<string, string | number>>,
  words: Markup | string,
): Markup {
  return html`<a href="${pathOf(workspace, page, parameters)}">${words}</a>`;
}

/** Runs an admin operation, so that pages and commands show the same. @param actor the author of a change */
export function request<Name extends AdminOperation>(
  { partition, clock, actor }: Pick<WorkspacePageContext, 'partition' | 'clock'> & { readonly actor?: Actor },
  name: Name,
  body: Asked<Name>,
): Promise<Answered<Name>> {
  return runAdminOperation(name, partition, body, clock, actor);
}

export function mayAct({ caller }: PageContext): boolean {
  return caller.role === 'admin' && caller.session !== undefined;
}
