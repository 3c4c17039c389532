/**
 * Loaded into a daemon by `--import`, for tests: other settings of SQLite than the program's.
 *
 *   POWER_CHECKPOINT   pages of the log after which they go into the database; with SQLite's 1 000 a short run would have none
 *   POWER_SYNCHRONOUS  `off`: nothing is synchronised, and whoever asks is told otherwise
 */
import BetterSqlite from 'better-sqlite3';

const { pragma } = BetterSqlite.prototype;
const pages = process.env['POWER_CHECKPOINT'];
const isOff = process.env['POWER_SYNCHRONOUS'] === 'off';

BetterSqlite.prototype.pragma = function changed(source, options) {
  if (source === 'journal_mode = WAL' && pages !== undefined)
    pragma.call(this, `wal_autocheckpoint = ${Number(pages)}`);
  if (!isOff || !source.startsWith('synchronous')) return pragma.call(this, source, options);
  pragma.call(this, 'synchronous = OFF');
  return 2;
};
