/** What was refused, and the way out. */
export class OneflushError extends Error {
  name: 'OneflushError';
}

/** The options of Oneflush; what is left out comes from the environment (`ONEFLUSH_…`). */
export interface Options {
  /** `auto` is `plain` in WAL mode. `plain`, `eager`, `waldio` act in WAL mode, `maw` elsewhere. */
  strategy?: 'auto' | 'stock' | 'plain' | 'eager' | 'waldio' | 'maw';
  /** `full`: every WAL commit is durable, whatever `PRAGMA synchronous` says. */
  durability?: 'pragma' | 'full';
  groupCommit?: 'on' | 'off' | boolean;
  /** Bytes by which the WAL is made longer ahead. */
  prealloc?: number;
  /** Whether the WAL outlives the last close. */
  keepWal?: 'on' | 'off' | boolean;
  /** Who runs the automatic checkpoints. */
  checkpoints?: 'background' | 'sqlite';
  /** `allow`: `eager`, `waldio` and `maw` also where a sync may not keep what it promises. */
  unsafeGround?: 'refuse' | 'allow';
  /** Bytes that the log of `eager` and `maw` may grow to. */
  logSize?: number;
  /** What makes commits of `maw` atomic. */
  atomic?: 'auto' | 'f2fs' | 'xfs' | 'log';
  /** How a new log of `waldio` aligns frames. */
  layout?: 'embed' | 'pad512' | 'pad4k' | 'pad8k';
  /** What makes a commit of `waldio` durable. */
  sync?: 'fs' | 'pd' | 'ns';
  /** Frames that `waldio` acknowledges from memory. */
  group?: number;
  /** For how long: `2ms`. */
  interval?: `${number}ms`;
}

export interface LoadOptions extends Options {
  /**
   * Whether every database that is opened afterwards uses Oneflush. better-sqlite3 needs it. It
   * cannot be taken back while the process lives.
   */
  default?: boolean;
}

/** A database of better-sqlite3 or node:sqlite. */
export interface Database {
  loadExtension(path: string): unknown;
  prepare(sql: string): unknown;
  close(): unknown;
}

/** A database of sqlite3, whose calls end later. It has all that a `Database` has, and these. */
export interface AsyncDatabase {
  loadExtension(path: string, callback?: (error: Error | null) => void): unknown;
  configure(...options: never[]): unknown;
  get(sql: string, ...more: never[]): unknown;
}

/** Counters of one kind of file; times are nanoseconds. */
export interface FileStats {
  opens: number;
  reads: number;
  read_bytes: number;
  writes: number;
  write_bytes: number;
  syncs: number;
  truncates: number;
  deletes: number;
  [more: string]: unknown;
}

/** What `PRAGMA oneflush_stats` answers. A strategy adds a part with its own name. */
export interface Stats {
  version: string;
  database: string;
  strategy: string;
  /** False where the strategy changes nothing; `inactive_because` says why. */
  active: boolean;
  inactive_because?: string;
  connections: number;
  /** How often SQLite's locks were found cancelled by a `close()` in this process. */
  cancelled_locks: number;
  commits: {
    count: number;
    bytes: { sum: number; max: number };
    syncs: { sum: number; max: number };
    latency_ns: { p50: number; p99: number; max: number; [more: string]: number };
    recent: { bytes: number; syncs: number; latency_ns: number }[];
  };
  files: Record<'db' | 'rollback_journal' | 'super_journal' | 'temp' | 'wal', FileStats>;
  [more: string]: unknown;
}

/** What a checkpoint has copied; with `maw` other fields. */
export interface Checkpoint {
  held_up?: boolean;
  wal_frames?: number;
  copied_frames?: number;
  [more: string]: unknown;
}

export interface RecoverOptions {
  /** Only say what the log holds. */
  dryRun?: boolean;
  /** Where the log is lost or damaged, keep what can be kept; all files are copied aside first. */
  acceptLoss?: boolean;
}

export interface Recovered {
  database: string;
  /** False where there was nothing to recover, and with `dryRun`. */
  recovered: boolean;
  /** What the log held; null for a plain database file. */
  log: Record<string, unknown> | null;
  /** With `acceptLoss`: what was kept, what is lost, where the copies are. */
  accepted_loss?: Record<string, unknown>;
}

/**
 * Loads the extension into the SQLite of a driver, by a database or by its class. It stays for the
 * process and serves databases that are opened afterwards; those that are open stay as they are.
 *
 * A call with options replaces those of the call before, for databases that are opened afterwards.
 * A call without options changes nothing where the extension is loaded.
 */
export function load(
  target: AsyncDatabase | (new (path: string, ...more: never[]) => AsyncDatabase),
  options?: LoadOptions,
): Promise<void>;
export function load(
  target: Database | (new (path: string, ...more: never[]) => Database),
  options?: LoadOptions,
): void;

/** A URI that opens the file with Oneflush, for drivers that know URIs (not better-sqlite3). */
export function uri(path: string | URL, options?: Options): string;

/**
 * The strategy of an open database: `plain`, or `plain (inactive: journal_mode=delete)`. Null where
 * Oneflush is not in use.
 */
export function strategy(db: AsyncDatabase): Promise<string | null>;
export function strategy(db: Database): string | null;

/** What the commits of this process have cost; null where Oneflush is not in use. */
export function stats(db: AsyncDatabase): Promise<Stats | null>;
export function stats(db: Database): Stats | null;

/** Runs a checkpoint now; null where Oneflush is not in use. */
export function checkpoint(db: AsyncDatabase): Promise<Checkpoint | null>;
export function checkpoint(db: Database): Checkpoint | null;

/** Leaves one plain database file after a kill or a crash with eager, waldio or maw. */
export function recover(path: string, options?: RecoverOptions): Recovered;

/** Path of liboneflush.so, the extension. */
export function libraryPath(): string;

/** Path of the program `oneflush`. */
export function programPath(): string;

/** The version of this package, of the extension and of the program. */
export const version: string;
