/** The values that fields of the workspace API take, apart from its schemas: commands name them in their help. */

export { GIT_PROVIDER_IDS as PROVIDERS } from '../../model/git-providers.ts';
export { SPECIFIED_STATUSES as TASK_STATUSES } from '../../model/task-status.ts';

export const PRIORITIES = ['urgent', 'high', 'medium', 'low', 'none'] as const;
export const TASK_KINDS = ['bug', 'idea'] as const;
export const DOCUMENT_TYPES = ['requirement', 'task'] as const;
export const DOCUMENT_STATUSES = ['draft', 'completed'] as const;
export const PULL_REQUEST_STATES = ['open', 'closed', 'merged', 'declined'] as const;
