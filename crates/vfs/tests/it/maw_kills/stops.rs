//! Writers that are stopped, and others that come meanwhile.

use std::time::{Duration, Instant};

use oneflush_vfs::KillPoint;

use super::worker::{Said, Worker, commit};
use super::{GOES_ON, Pair, insist, is_busy, look, open_for};

/// Others are told "busy" in bounded time, or go on. What they see is never wrong.
#[test]
fn beside_a_stopped_writer_others_are_answered_and_see_whole_transactions() {
    use KillPoint::*;
    for point in [
        Busy,
        Recorded,
        HalfShown,
        Durable,
        HalfInPlace,
        InPlace,
        Announced,
        Linked,
        JournalWritten,
    ] {
        for is_killed in [false, true] {
            let about = format!("stopped at {point:?}, killed: {is_killed}");
            let pair = Pair::new();
            let [main, other] = pair.paths();
            let mut said = Said::default();
            let keeps = insist(&about, || {
                open_for(Duration::from_millis(300), &main, &other, "delete", "")
            });
            let mut stopped = Worker::start_to_stop(&pair, 4, (point, 4));
            assert!(stopped.is_stopped_by(Instant::now() + GOES_ON), "{about}");
            let before = Instant::now();
            for mode in ["", "mode=ro"] {
                match open_for(Duration::from_millis(300), &main, &other, "delete", mode)
                    .and_then(|db| look(&db))
                {
                    Ok(seen) => drop(seen.unwrap()),
                    Err(error) => assert!(is_busy(&error), "{about}: {error}"),
                }
            }
            match look(&keeps) {
                Ok(seen) => drop(seen.unwrap()),
                Err(error) => assert!(is_busy(&error), "{about}: {error}"),
            }
            match commit(&keeps, 8, 1, 1) {
                Ok(()) => said.hear(8, "acknowledged 1"),
                Err(error) => {
                    assert!(is_busy(&error), "{about}: {error}");
                    let _ = keeps.execute_batch("ROLLBACK");
                }
            }
            assert!(before.elapsed() < GOES_ON, "{about}");
            if !is_killed {
                stopped.go_on();
                stopped.hear(10);
            }
            stopped.kill(&mut said);
            insist(&about, || look(&keeps)).unwrap();
            let number = 1 + said.numbers.get(&8).map_or(0, |numbers| numbers.len() as i64);
            insist(&about, || {
                commit(&keeps, 8, number, number).inspect_err(|_| {
                    let _ = keeps.execute_batch("ROLLBACK");
                })
            });
            said.hear(8, &format!("acknowledged {number}"));
            drop(keeps);
            said.check(&pair, &about);
        }
    }
}
