import type { Grammar } from '../../model/link.ts';

/** In a list behind one word only the first is closed (AZ4). */
export const grammar: Grammar = {
  closing: ['fix', 'fixes', 'fixed'],
  closes: 'next',
  names: ['AB#'],
  addresses: [
    [
      '//dev.azure.com/{organization}/_workitems/edit/{number}',
      ...['//dev.azure.com/{organization}', '//{organization}.visualstudio.com'].flatMap((place) => [
        `${place}/…/_workitems/edit/{number}`,
        `${place}/…/_workitems?id={number}`,
        `${place}/…?workitem={number}`,
      ]),
    ],
  ],
};
