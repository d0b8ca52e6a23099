//! Strategy `maw` with XFS's exchange, on a real XFS.

use oneflush_testing::named;

use crate::common::atomic_place::{self, Place, counted, open_in, refused};
use crate::common::own_xfs::{OwnXfs, on_xfs};
use crate::common::{commits, files, open_stock, scratch};

/// A check that runs on an XFS of its own.
macro_rules! on_xfs {
    ($($name:ident => $check:expr;)*) => {
        $(
            #[test]
            fn $name() {
                on_xfs(named!($name), true, $check);
            }
        )*
    };
}

on_xfs! {
    all_page_sizes_commit_by_exchange_and_stock_sqlite_reads_each_commit =>
        |xfs| atomic_place::all_page_sizes(xfs);
    rollbacks_savepoints_and_spills_work =>
        |xfs| atomic_place::rollbacks_savepoints_and_spills(xfs);
    stock_sqlite_may_write_in_between => |xfs| atomic_place::stock_sqlite_in_between(xfs);
    several_connections_and_an_attached_database_commit =>
        |xfs| atomic_place::several_connections_and_databases(xfs);
    what_was_acknowledged_in_a_file_that_was_removed_is_saved =>
        |xfs| atomic_place::a_removed_file(xfs);
    a_full_file_system_refuses_the_commit_and_with_room_it_goes_on =>
        |xfs| atomic_place::full_file_system(xfs);
    readers_of_other_processes_see_whole_commits =>
        |xfs| atomic_place::readers_see_whole_commits(xfs);
    the_death_of_a_process_leaves_a_plain_file_with_all_its_commits =>
        |xfs| atomic_place::the_death_of_a_process(xfs);
    what_was_acknowledged_outlives_a_loss_of_power => |xfs| atomic_place::the_loss_of_power(xfs);
    a_commit_flushes_less_than_those_of_sqlite => |xfs| atomic_place::bytes_and_flushes(xfs);
    what_was_acknowledged_is_on_the_device => acknowledged_is_on_the_device;
    after_the_file_system_has_failed_nothing_is_acknowledged => fails;
}

fn acknowledged_is_on_the_device(xfs: &OwnXfs) {
    let path = xfs.path().join("a.db");
    let db = open_in(xfs, &path, "delete");
    commits::create(&db);
    let much = "CREATE TABLE much AS SELECT randomblob(500000); DROP TABLE much; VACUUM";
    for round in 1..=3 {
        commits::make(&db, 40);
        db.execute_batch(much).unwrap();
        let copy = xfs.after_crash(&format!("crash{round}")).join("a.db");
        assert_eq!(commits::check(&open_stock(&copy)), Ok(40 * round));
        assert_eq!(files(&copy), [""]);
    }
}

/// The file system fails for good.
fn fails(xfs: &OwnXfs) {
    let path = xfs.path().join("a.db");
    let db = open_in(xfs, &path, "delete");
    commits::create(&db);
    commits::make(&db, 5);
    let atomic = counted(&db, "atomic");
    xfs.lose_power();
    for _ in 0..3 {
        assert!(commits::try_make(&db).is_err());
    }
    assert_eq!(counted(&db, "atomic"), atomic);
    drop(db);
    xfs.remount();
    assert_eq!(commits::check(&open_stock(&path)), Ok(5));
    let db = open_in(xfs, &path, "delete");
    commits::make(&db, 5);
    assert_eq!(commits::check(&db), Ok(10));
}

#[test]
fn an_xfs_without_the_feature_refuses_it_and_says_why() {
    on_xfs(named!(an_xfs_without_the_feature_refuses_it_and_says_why), false, |xfs| {
        let path = xfs.path().join("a.db");
        let said = refused(&path, "xfs");
        assert!(
            said.contains("atomic=xfs: this XFS was made without the feature exchange"),
            "{said}"
        );
        let said = refused(&path, "f2fs");
        assert!(said.contains("here is XFS, and only F2FS has"), "{said}");
    });
}

#[test]
fn another_file_system_refuses_both_by_name() {
    let (_dir, path) = scratch();
    for (atomic, only) in [("f2fs", "only F2FS has this atomic write"), ("xfs", "only XFS has")] {
        let said = refused(&path, atomic);
        assert!(said.contains(&format!("atomic={atomic}: the file system here is ")), "{said}");
        assert!(said.contains(only), "{said}");
    }
}
