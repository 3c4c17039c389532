import { pbkdf2 } from 'node:crypto';

/**
 * For `--import`, with one thread for what the runtime does beside JavaScript: that thread is always busy, so whoever waits for
 * a file waits for long, and each time for another while. Until the program has set its exit code.
 */
function keepBusy(): void {
  if (process.exitCode !== undefined) return;
  pbkdf2('a password', 'some salt', 5_000 + Math.floor(Math.random() * 20_000), 32, 'sha256', keepBusy);
}

keepBusy();
