//! The frames that a connection has written and that are not published yet.

/// No more bytes than this are kept.
const BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub struct Frames {
    /// The first frame, and frames as SQLite wrote them.
    runs: Vec<(u32, Vec<u8>)>,
    bytes: usize,
}

impl Frames {
    pub fn clear(&mut self) {
        self.runs.clear();
        self.bytes = 0;
    }

    /// Takes frames out of `bytes`.
    pub fn add(&mut self, first: u32, bytes: &mut Vec<u8>, frame_bytes: usize) {
        // A frame that is written anew takes the place of what was there.
        self.runs.retain(|(before, frames)| before + (frames.len() / frame_bytes) as u32 <= first);
        if self.bytes + bytes.len() > BYTES_MAX {
            return;
        }
        self.bytes += bytes.len();
        self.runs.push((first, std::mem::take(bytes)));
    }

    /// Gives out each frame up to `last` with its bytes, and forgets all.
    pub fn publish(&mut self, last: u32, frame_bytes: usize, mut with: impl FnMut(u32, &[u8])) {
        for (first, frames) in self.runs.drain(..) {
            for (frame, bytes) in (first..=last).zip(frames.chunks_exact(frame_bytes)) {
                with(frame, bytes);
            }
        }
        self.bytes = 0;
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn published_frames_are_those_written_last_and_the_rest_is_forgotten() {
        let mut frames = Frames::default();
        frames.add(5, &mut vec![1; 20], 10);
        frames.add(7, &mut vec![2; 10], 10);
        frames.add(7, &mut vec![3; 20], 10);
        let mut published = Vec::new();
        frames.publish(7, 10, |frame, bytes| published.push((frame, bytes[0])));
        assert_eq!(published, [(5, 1), (6, 1), (7, 3)]);
        frames.publish(9, 10, |_, _| unreachable!());
    }
}
