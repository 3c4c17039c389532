/**
 * Loaded before the program: after SIGUSR2 the process suspends itself (SIGSTOP) at its next request, between the lease check and
 * the write.
 */

import { Agent } from 'undici';

process.on('SIGUSR2', () => {
  const { dispatch } = Agent.prototype;
  Agent.prototype.dispatch = function (...request) {
    Agent.prototype.dispatch = dispatch;
    process.kill(process.pid, 'SIGSTOP');
    return dispatch.apply(this, request);
  };
});
