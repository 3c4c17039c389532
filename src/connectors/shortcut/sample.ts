import type { SampleEvent } from '../connector.ts';
import { TRIAL_NUMBER, trialTitle } from '../kit/sample.ts';
import type { Options } from './options.ts';

/** Sample events of Shortcut, made here. They name no team: worksync fetches the story. */
export const samples = {
  created: story('a story is created', 'create'),
  updated: story('the same story is updated', 'update'),
};

function story(about: string, action: string): SampleEvent<Options> {
  return {
    about,
    headers: {},
    payload: (_options, context) => ({
      version: 'v1',
      changed_at: new Date(context.at).toISOString(),
      actions: [{ id: TRIAL_NUMBER, entity_type: 'story', action, name: trialTitle(context), story_type: 'chore' }],
    }),
  };
}
