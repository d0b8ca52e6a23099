use std::io::Write;

use super::*;

/// Gives one byte at a time, as a slow pipe does.
struct Dripping(Cursor<Vec<u8>>);

impl Read for Dripping {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min(1);
        self.0.read(&mut buffer[..n])
    }
}

fn lines(mut source: Source) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(text) = source.line().unwrap() {
        let (kind, range) = match text {
            Text::Line(range) => ("", range),
            Text::Unended(range) => ("unended:", range),
            Text::TooLong(range) => ("too long:", range),
        };
        lines.push(format!("{kind}{}", String::from_utf8_lossy(source.bytes(range))));
    }
    lines
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn lines_are_the_same_plain_gzipped_in_several_members_and_in_zstd() {
    let (first, second) = (&b"one\r\ntwo\n\n"[..], &b"three"[..]);
    let text = [first, second].concat();
    let packed = [
        text.clone(),
        gzip(&text),
        [gzip(first), gzip(second)].concat(),
        zstd::encode_all(&text[..], 1).unwrap(),
        [zstd::encode_all(first, 1).unwrap(), zstd::encode_all(second, 1).unwrap()].concat(),
    ];
    for bytes in packed {
        let source = Source::new(Dripping(Cursor::new(bytes))).unwrap();
        assert_eq!(lines(source), ["one", "two", "", "unended:three"]);
    }
}

#[test]
fn what_is_shorter_than_a_magic_is_read_too() {
    for text in ["", "a", "ab", "abc", "\n"] {
        let source = Source::new(Cursor::new(text)).unwrap();
        assert_eq!(lines(source).len(), usize::from(!text.is_empty()), "{text:?}");
    }
}

#[test]
fn compressed_data_that_end_early_give_what_they_hold() {
    let text: Vec<u8> = (0..200_000u32)
        .flat_map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761)).into_bytes())
        .collect();
    for packed in [gzip(&text), zstd::encode_all(&text[..], 1).unwrap()] {
        let mut source = Source::new(Cursor::new(packed[..packed.len() / 2].to_vec())).unwrap();
        let mut held = Vec::new();
        while let Some(Text::Line(range)) = source.line().unwrap() {
            held.extend_from_slice(source.bytes(range));
            held.push(b'\n');
        }
        assert!(held.len() > text.len() / 4 && held.len() < text.len(), "{}", held.len());
        assert_eq!(held, text[..held.len()]);
        assert_eq!(source.cut_off, Some("the compressed data end early"));
    }
}

#[test]
fn damaged_compressed_data_are_an_error() {
    let mut packed = gzip(&b"a line\n".repeat(10_000));
    let n = packed.len();
    packed[n - 6] ^= 0xff;
    let mut source = Source::new(Cursor::new(packed)).unwrap();
    let error = loop {
        match source.line() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the damage is not noticed"),
            Err(error) => break error,
        }
    };
    assert_ne!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(source.line().unwrap(), None, "after an error there is nothing more");
}

#[test]
fn a_line_longer_than_the_buffer_is_passed_over_and_the_next_one_is_whole() {
    for extra in [0, 1, 1000, LINE_BYTES_MAX, 3 * LINE_BYTES_MAX + 5] {
        let mut text = b"first\n".to_vec();
        text.extend(vec![b'x'; LINE_BYTES_MAX + extra]);
        text.extend(b"\nlast\n");
        let lines = lines(Source::new(Cursor::new(text)).unwrap());
        assert_eq!((lines.len(), &lines[0][..], &lines[2][..]), (3, "first", "last"), "{extra}");
        assert_eq!(lines[1], format!("too long:{}", "x".repeat(256)));
    }
}

#[test]
fn an_endless_line_ends_with_the_input() {
    let text = vec![b'x'; 2 * LINE_BYTES_MAX];
    assert_eq!(lines(Source::new(Cursor::new(text)).unwrap()).len(), 1);
}
