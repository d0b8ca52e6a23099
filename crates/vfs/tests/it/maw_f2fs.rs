//! Strategy `maw` with F2FS's atomic write, on a real F2FS.
//!
//! Few kernels that tests run on have F2FS. `guest/maw-f2fs` runs this program in a guest that has
//! it, where a variable names the mount point. Elsewhere the tests skip themselves.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use oneflush_testing::skip;

use crate::common;
use crate::common::atomic_place::{self, Place};

/// The mount point and its device: `/mnt|/dev/vda1`.
const F2FS: &str = "ONEFLUSH_TEST_F2FS";

/// One test at a time has the file system.
static ONE: Mutex<()> = Mutex::new(());

struct Mounted {
    point: String,
    device: String,
    folder: PathBuf,
}

impl Place for Mounted {
    fn atomic(&self) -> &'static str {
        "f2fs"
    }

    fn path(&self) -> PathBuf {
        self.folder.clone()
    }

    fn lose_power(&self) {
        // F2FS_GOING_DOWN_NOSYNC
        run("f2fs_io", &["shutdown", "2", &self.point]);
    }

    fn remount(&self) {
        run("umount", &[&self.point]);
        run("mount", &["-t", "f2fs", &self.device, &self.point]);
    }

    fn written(&self) -> (u64, u64) {
        // A partition has no flushes of its own.
        let name = self.device.trim_start_matches("/dev/").trim_end_matches(char::is_numeric);
        atomic_place::written_to(name)
    }
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?}");
}

fn on_f2fs(test: &str, check: impl FnOnce(&dyn Place)) {
    let Some(mounted) = std::env::var_os(F2FS) else {
        return skip("this kernel may have no F2FS; `make guest` brings one that has");
    };
    let _one = ONE.lock();
    let mounted = mounted.into_string().unwrap();
    let (point, device) = mounted.split_once('|').unwrap();
    let folder = PathBuf::from(point).join(test);
    std::fs::create_dir(&folder).unwrap();
    check(&Mounted { point: point.to_owned(), device: device.to_owned(), folder: folder.clone() });
    std::fs::remove_dir_all(&folder).unwrap();
}

macro_rules! on_f2fs {
    ($($name:ident => $check:expr;)*) => {
        $(
            #[test]
            fn $name() {
                on_f2fs(stringify!($name), $check);
            }
        )*
    };
}

on_f2fs! {
    all_page_sizes_commit_atomically_and_stock_sqlite_reads_each_commit =>
        atomic_place::all_page_sizes;
    rollbacks_savepoints_and_spills_work => atomic_place::rollbacks_savepoints_and_spills;
    stock_sqlite_may_write_in_between => atomic_place::stock_sqlite_in_between;
    several_connections_and_an_attached_database_commit =>
        atomic_place::several_connections_and_databases;
    a_full_file_system_refuses_the_commit_and_with_room_it_goes_on =>
        atomic_place::full_file_system;
    what_was_acknowledged_in_a_file_that_was_removed_is_saved => atomic_place::a_removed_file;
    readers_of_other_processes_see_whole_commits => atomic_place::readers_see_whole_commits;
    the_death_of_a_process_leaves_a_plain_file_with_all_its_commits =>
        atomic_place::the_death_of_a_process;
    what_was_acknowledged_outlives_a_loss_of_power => atomic_place::the_loss_of_power;
    a_commit_flushes_less_than_those_of_sqlite => atomic_place::bytes_and_flushes;
    nobody_has_to_ask_for_it_by_name => without_a_name;
    small_pages_grow_beyond_the_first_node_block => small_pages;
}

/// `strategy=auto`: in the rollback modes no journal, in WAL mode strategy `plain`.
fn without_a_name(place: &dyn Place) {
    let path = place.path().join("auto.db");
    let db = common::open_with(&path, "strategy=auto").unwrap();
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    for mode in ["delete", "truncate", "persist", "wal", "delete"] {
        db.execute_batch(&format!("PRAGMA journal_mode={mode}; INSERT INTO t VALUES(1)")).unwrap();
        let _ = std::fs::remove_file(common::side(&path, "-journal"));
        let writes = |role: &str| common::statistic(&db, &format!("/files/{role}/writes"));
        let before = (writes("wal"), writes("rollback_journal"));
        db.execute_batch("BEGIN; INSERT INTO t VALUES(2)").unwrap();
        assert!(!common::side(&path, "-journal").exists(), "{mode}");
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(writes("wal") > before.0, mode == "wal", "{mode}");
        assert_eq!(writes("rollback_journal") > before.1, mode != "wal", "{mode}");
        assert!(!common::side(&path, "-maw").exists());
    }
    drop(db);
    let stock = common::open_stock(&path);
    assert_eq!((common::count(&stock), common::integrity(&stock).as_str()), (10, "ok"));
    // Whoever wants a log has to name the strategy.
    let db = common::open_with(&path, "strategy=auto&atomic=log").unwrap();
    db.execute_batch("INSERT INTO t VALUES(3)").unwrap();
    assert!(!common::side(&path, "-maw").exists());
}

/// New blocks in parts want space before the start, or the commit fails with ENOENT.
fn small_pages(place: &dyn Place) {
    for page_bytes in [512, 1024, 2048] {
        let path = place.path().join(format!("{page_bytes}.db"));
        let db = common::open_with(&path, "strategy=maw&atomic=f2fs").unwrap();
        let sql = format!("PRAGMA page_size={page_bytes}; CREATE TABLE t(v)");
        db.execute_batch(&sql).unwrap();
        // A node block has 1,018 blocks, and the inode 873.
        for rows in 1..=3 {
            db.execute_batch("INSERT INTO t VALUES(zeroblob(3600000))").unwrap();
            assert_eq!(common::count(&db), rows, "pages of {page_bytes} bytes");
        }
        assert_eq!(common::statistic(&db, "/maw/atomic"), 3, "pages of {page_bytes} bytes");
        drop(db);
        let stock = common::open_stock(&path);
        assert_eq!((common::count(&stock), common::integrity(&stock).as_str()), (3, "ok"));
    }
}
