/** Loaded before the program: the clock of its machine is an hour ahead, until SIGUSR2 sets it right. */
let ahead = 3_600_000;
const now = Date.now.bind(Date);
Date.now = () => now() + ahead;
process.on('SIGUSR2', () => {
  ahead = 0;
});
