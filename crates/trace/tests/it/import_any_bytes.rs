//! Reading any file ends, without a panic, and accounts for what it read.

use std::io::Cursor;

use oneflush_trace::import::{Format, ImportError, Reader};
use proptest::prelude::*;

/// Lines of every format, to be cut, joined and damaged.
const SEEDS: [&str; 15] = [
    "        adbd-3434  [002] d..2   263.581140: block_rq_insert: 179,0 WS 0 () 899944 + 8 [sh]\n",
    "     ksoftirqd/0-14  (  14) [000] ..s.. 36552.067008: block_rq_complete: 7,0 RM () 8742 + 2 \
        be,0,6 [0]\n",
    "  python3-26074   [000] ..... 36552.067971: ext4_sync_file_enter: dev 7,0 ino 13 parent 2 \
        datasync 1 \n",
    "  python3-7520    [000] ..... 39492.985681: ext4_unlink_enter: dev 7,0 ino 13 size 8720 \
        parent 2\n",
    "  app-1  [001] ...1  12.7: f2fs_truncate: dev = (259,5), ino = 9, pino = 3, i_mode = 0x81b0, \
        i_size = 0, i_nlink = 1\n",
    "7590 1795202402.616115 unlinkat(3</mnt>, \"b, \\\"\\303.db-journal\", 0) = 0 <0.000142>\n",
    "CPU:1 [LOST 3551 EVENTS]\n# entries-in-buffer/entries-written: 425/18981   #P:2\n",
    "  7,0    0      335     0.239773000 26070  Q FWFSM 32956 + 2 [jbd2/loop0-8]\n",
    "    0.096422553\tD\tWAS\t23901680\t  16\t103336\t           \
        GCMReader\tD\t/data/gms/rmq.db-journal\n",
    "   python3 26847/2 [000] 36564.359962:   block:block_rq_issue: 7,0 WS 1024 () 18310 + 2 \
        0x2,0,6 [python3]\n",
    "26990 1795199476.837514 pwrite64(5</mnt/s1.db-journal>, \"\\0\\17\\36\\272H\\0\"..., 512, \
        1024) = 512 <0.000019>\n",
    "26990 1795199476.842279 pwrite64(4</a\\74>, \"SQLite\"..., 4096, 8192 <unfinished ...>\n",
    "26990 1795199476.842362 <... pwrite64 resumed>) = 4096 <0.000055>\n",
    "[pid 27012] 1795199477.372338 fsync(3</a>strace: Process 27014 attached\n <unfinished ...>\n",
    "7 1795199476.000001 pwritev2(3</a>, [{iov_base=\"a, )\\\"\", iov_len=24}], 1, 32, 0) = 24 \
        <0.000019>\n",
];

fn read_all(mut reader: Reader, bytes: usize) {
    let mut events = 0;
    loop {
        match reader.next() {
            Ok(Some(event)) => {
                events += 1;
                assert!(events <= bytes, "more events than bytes");
                for id in [event.actor.name, event.file].into_iter().flatten() {
                    let _ = reader.names().text(id);
                }
            }
            Ok(None) => break,
            Err(error) => {
                assert!(error.to_string().starts_with("any: cannot be read after"), "{error}");
                break;
            }
        }
    }
    let skipped = reader.skipped();
    assert_eq!(skipped.first.len() as u64, skipped.count.min(10));
    assert!(skipped.first.is_sorted_by_key(|line| line.number));
}

fn check(bytes: &[u8]) {
    match Reader::from_read("any", Cursor::new(bytes.to_vec())) {
        Ok(reader) => read_all(reader, bytes.len()),
        Err(
            error @ (ImportError::Empty { .. }
            | ImportError::Unknown { .. }
            | ImportError::Newer { .. }
            | ImportError::Read { .. }),
        ) => {
            assert!(error.to_string().starts_with("any: "));
        }
        Err(error) => panic!("{error}"),
    }
    for format in Format::ALL {
        if let Ok(reader) = Reader::with_format("any", Cursor::new(bytes.to_vec()), format) {
            read_all(reader, bytes.len());
        }
    }
}

/// A piece of a seed, or any bytes, or a number that may not fit.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0..SEEDS.len()).prop_map(|n| SEEDS[n].as_bytes().to_vec()),
        3 => (0..SEEDS.len(), 0..100usize, 0..100usize).prop_map(|(n, from, to)| {
            let seed = SEEDS[n].as_bytes();
            let (from, to) = (from.min(seed.len()), to.min(seed.len()));
            seed[from.min(to)..from.max(to)].to_vec()
        }),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => any::<u128>().prop_map(|n| n.to_string().into_bytes()),
        1 => Just(b"\x07\x74\x61\x65".to_vec()),
        1 => Just(b"\n".to_vec()),
    ]
}

/// strace's call without its result, as in `write(3</a.db>, "", 8, 0) = `, ended the program.
#[test]
fn a_real_line_that_is_cut_at_both_ends_is_read_or_refused() {
    for seed in SEEDS.map(str::as_bytes) {
        let words = (0..seed.len()).filter(|&at| at == 0 || b" .".contains(&seed[at - 1]));
        for from in words {
            for to in from..=seed.len() {
                check(&seed[from..to]);
                check(&[&seed[from..to], b"\n"].concat());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        check(&bytes);
    }

    #[test]
    fn any_mixture_of_pieces_of_lines_is_read_or_refused(
        pieces in prop::collection::vec(piece(), 0..20),
    ) {
        check(&pieces.concat());
    }

    #[test]
    fn a_real_line_with_any_byte_changed_is_read_or_refused(
        n in 0..SEEDS.len(),
        at in any::<usize>(),
        to in any::<u8>(),
    ) {
        let mut bytes = SEEDS[n].as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = to;
        check(&bytes);
    }
}
