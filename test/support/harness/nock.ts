import nock from 'nock';
import { afterAll, afterEach, beforeAll } from 'vitest';

// It begins with its import, and files of tests that have nothing to do with it share the process.
nock.restore();

/** Nock answers for the hosts that the tests of this file name. @param reachable the host that may still be asked itself; no other may */
export function answerByNock(reachable?: string): void {
  beforeAll(() => {
    nock.activate();
    nock.disableNetConnect();
    if (reachable !== undefined) nock.enableNetConnect(reachable);
  });
  afterEach(() => nock.cleanAll());
  afterAll(() => {
    nock.enableNetConnect();
    nock.restore();
  });
}

export { nock };
