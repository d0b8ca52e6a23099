//! A file that is no trace is refused. The message says what was looked for and what to do.

use std::io::Cursor;
use std::path::Path;

use oneflush_trace::import::{Format, ImportError, Reader, open};

fn refusal(bytes: &[u8]) -> String {
    Reader::from_read("file", Cursor::new(bytes.to_vec()))
        .err()
        .expect("this is no trace")
        .to_string()
}

#[test]
fn a_file_of_no_format_is_refused_with_all_that_was_looked_for() {
    let message = refusal(b"to be, or not to be\nthat is the question\n");
    // It was one line of 700 characters.
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[0], "file: is in no known format. Looked for in its first 41 bytes:");
    assert_eq!((lines.len(), lines[2]), (3, "How to record each: docs/identify.md#what-it-reads"));
    assert!(lines.iter().all(|line| line.len() <= 120), "{message}");
    for sign in [
        "ftrace",
        "blkparse",
        "MOST",
        "blktrace",
        "perf script",
        "strace -f -ttt -yy -T",
        "AndroTrace",
    ] {
        assert!(message.contains(sign), "{sign} in {message}");
    }
}

#[test]
fn recordings_that_need_another_tool_first_are_named_with_it() {
    assert!(refusal(b"PERFILE2\x68\0\0\0\0\0\0\0").contains("perf script -i"));
    assert!(refusal(b"\x17\x08\x44tracing6\0").contains("trace-cmd report -i"));
    assert!(refusal(b"\x08\x74\x61\x65\0\0\0\0").contains("version other than 7"));
    assert!(refusal(b"\x65\x61\x74\x08\0\0\0\0").contains("version other than 7"));
    assert!(refusal(b"SQLite format 3\0\x10\0\x01\x01").contains("a database"));
    assert!(refusal(b"\xfd7zXZ\0\0\x04").contains("unpack it"));
}

/// Begins of what the tools really print.
#[test]
fn the_texts_of_other_tools_are_named() {
    for (begin, name) in [
        (
            "         ? (         ): bash/28671  ... [continued]: execve())        = 0\n     0.066 \
                ( 0.008 ms): bash/28671 brk()  = 0x5631e35b3000\n",
            "`perf trace`",
        ),
        (
            "     0.050 rustc/28432 block:block_dirty_buffer(dev: 266338304, sector: 22839309, \
                size: 4096)\n",
            "`perf trace`",
        ),
        (
            "Attaching 4 probes...\nTIME(ms)     DISK    COMM             PID    LAT(ms)\n",
            "biosnoop",
        ),
        ("TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   LAT(ms)\n", "biosnoop"),
        ("Attaching 2 probes...\n@[jbd2/sda1-8]: 12\n", "bpftrace"),
        ("{\"type\": \"attached_probes\", \"data\": {\"probes\": 3}}\n", "bpftrace"),
    ] {
        let message = refusal(begin.as_bytes());
        assert!(
            message.contains(name)
                && message.contains("record with")
                && !message.contains("Looked"),
            "{message}"
        );
    }
}

/// The story: such a file was said to be empty, as if the recording had never been started.
#[test]
fn compressed_data_that_end_before_the_first_line_are_said_to_end_early() {
    let line = "  sh-1     [000] ...1  1.000000: block_bio_queue: 8,0 WS 8 + 8 [sh]\n";
    let text: String = (0..500).map(|n| line.replace("1.000000", &format!("1.{n:06}"))).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
    let packed = [gzip.finish().unwrap(), zstd::encode_all(text.as_bytes(), 1).unwrap()];
    for packed in packed {
        for length in [4, 6, 11, 20] {
            let message = refusal(&packed[..length]);
            assert!(
                message.starts_with("file: the compressed data end early"),
                "{length}: {message}"
            );
        }
        // Two of them behind each other, cut off everywhere in the second.
        let two = [packed.as_slice(), &packed].concat();
        for cut in [1, 3, 8, 15, packed.len() - 1] {
            let mut reader =
                Reader::from_read("file", Cursor::new(two[..packed.len() + cut].to_vec())).unwrap();
            let mut count = 0;
            while reader.next().unwrap().is_some() {
                count += 1;
            }
            assert!(count >= 500, "{cut}: {count}");
            assert_eq!(reader.skipped().cut_off, Some("the compressed data end early"), "{cut}");
        }
    }
}

#[test]
fn an_empty_file_is_refused_and_an_empty_recording_is_not() {
    assert!(refusal(b"").starts_with("file: is empty"));
    let empty = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n#\n";
    let mut reader = Reader::from_read("file", Cursor::new(empty)).unwrap();
    assert_eq!((reader.format(), reader.next().unwrap()), (Format::Ftrace, None));
}

#[test]
fn a_trace_behind_some_lines_of_something_else_is_recognized() {
    let text = "recorded by a script\n\n  sh-1     [000] ...1  1.000000: block_bio_queue: 8,0 WS 8 \
        + 8 [sh]\n";
    let mut reader = Reader::from_read("file", Cursor::new(text)).unwrap();
    assert!(reader.next().unwrap().is_some());
    assert_eq!(reader.next().unwrap(), None);
    assert_eq!(
        (reader.skipped().count, reader.skipped().first[0].text.as_str()),
        (1, "recorded by a script")
    );
}

#[test]
fn a_trace_is_recognized_in_what_a_live_pipe_has_given_so_far() {
    struct Pipe(usize);
    impl std::io::Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let line = b"  sh-1     [000] ...1  1.000000: block_bio_queue: 8,0 WS 8 + 8 [sh]\n";
            self.0 += 1;
            assert!(self.0 <= 8, "read on although a line is there");
            let n = buffer.len().min(line.len());
            buffer[..n].copy_from_slice(&line[..n]);
            Ok(n)
        }
    }
    let mut reader = Reader::from_read("pipe", Pipe(0)).unwrap();
    assert!(reader.next().unwrap().is_some());
}

#[test]
fn a_file_that_is_not_there_and_a_folder_are_errors_with_their_names() {
    let error = open(Path::new("/nonexistent/trace.txt")).err().unwrap();
    assert!(
        matches!(&error, ImportError::Open { name, .. } if name == "/nonexistent/trace.txt"),
        "{error}"
    );
    let error = open(Path::new("/")).err().unwrap();
    assert!(matches!(&error, ImportError::Read { name, after: 0, .. } if name == "/"), "{error}");
}

#[test]
fn a_last_line_without_an_end_counts_if_it_is_whole_and_is_told_in_any_case() {
    let line = "  sh-1     [000] ...1  1.000000: block_bio_queue: 8,0 WS 8 + 8 [sh]";
    for (text, events) in [(format!("{line}\n{line}"), 2), (format!("{line}\n{}", &line[..60]), 1)]
    {
        let mut reader = Reader::from_read("file", Cursor::new(text)).unwrap();
        let mut n = 0;
        while reader.next().unwrap().is_some() {
            n += 1;
        }
        let skipped = reader.skipped();
        assert_eq!(
            (n, skipped.count, skipped.cut_off),
            (events, 0, Some("the last line has no end"))
        );
    }
}
