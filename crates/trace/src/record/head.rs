//! The head and the end of a recording, or of each of its files: what it is of, in comments, and
//! what holds for all of it.
//!
//! Readers pass over comments. Those of the form `# oneflush: KEY VALUE` are facts that
//! [`crate::import`] keeps.

use std::io::{self, Write};

use rustix::time::{ClockId, clock_gettime};

use super::now_ns;
use super::places::Place;
use super::writer::Writer;
use crate::escape::escape;
use crate::import::FACTS_FORMAT;
use crate::kernel::kernel_dev;
use crate::model::SECTOR_BYTES;
use crate::utc;

impl<W: Write> Writer<W> {
    /// `now_ns`: a time before the first event.
    pub(super) fn begin(&mut self, now_ns: u64) -> io::Result<()> {
        let kernel = kernel();
        writeln!(self.out, "# tracer: nop\n#")?;
        writeln!(self.out, "# {}, {kernel}", recorder())?;
        for line in self.places.targets.lines() {
            writeln!(self.out, "# {}", line.replace('\n', " "))?;
        }
        writeln!(self.out, "#")?;
        self.facts(&kernel)?;
        writeln!(self.out, "#")?;
        self.layers(now_ns)?;
        self.areas()
    }

    fn facts(&mut self, kernel: &str) -> io::Result<()> {
        self.fact("format", FACTS_FORMAT.to_string().as_bytes())?;
        self.fact("clock", clock().as_bytes())?;
        self.fact("kernel", kernel.as_bytes())?;
        self.fact("recorder", recorder().as_bytes())?;
        let named = self.places.targets.named().iter();
        let file_systems: Vec<String> =
            named.filter_map(|target| target.file_system.clone()).collect();
        for file_system in file_systems {
            self.fact("file_system", file_system.as_bytes())?;
        }
        for (name, value) in self.labels.all().to_vec() {
            self.fact("label", format!("{name}={value}").as_bytes())?;
        }
        if let Some(number) = self.out.as_parts().and_then(|parts| parts.number()) {
            self.fact("part", number.to_string().as_bytes())?;
        }
        Ok(())
    }

    /// Ends a file of the recording. What it counts is only what is in it.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let (counts, before) = (self.counts, self.counts_before);
        if self.out.knows_files() {
            let own_bytes = counts.own_bytes - before.own_bytes;
            self.fact("own_bytes", own_bytes.to_string().as_bytes())?;
        }
        let (events, lost) = (counts.events - before.events, counts.lost - before.lost);
        writeln!(self.out, "# end of the recording: {events} events, {lost} lost")
    }

    /// Goes on in the next file, with an event of this time.
    pub(super) fn next_file(&mut self, time_ns: u64) -> io::Result<()> {
        self.end()?;
        self.out.next(now_ns)?;
        self.refresh_labels();
        self.forget_told();
        self.begin(time_ns)?;
        if let Some(boundary) = &mut self.boundary {
            boundary.is_placed(time_ns);
        }
        Ok(())
    }

    /// An error that stays is said once.
    fn refresh_labels(&mut self) {
        let error = self.labels.refresh().err().map(|error| error.to_string());
        if let Some(error) = error.as_ref().filter(|_| error != self.labels_error) {
            self.notices.push(format!("{error}; the labels stay what they were"));
        }
        self.labels_error = error;
    }

    /// `# oneflush: KEY VALUE`
    pub(super) fn fact(&mut self, key: &str, value: &[u8]) -> io::Result<()> {
        write!(self.out, "# oneflush: {key} ")?;
        self.out.write_all(&escape(value))?;
        self.out.write_all(b"\n")
    }

    /// Which device lies on a file of which other.
    fn layers(&mut self, now_ns: u64) -> io::Result<()> {
        for ((major, minor), backing) in self.places.targets.on_file.clone() {
            let place = self.places.of_device(kernel_dev(backing.device)).unwrap_or_default();
            // The line then speaks of the file as all later lines do.
            self.tell(place, backing.inode, now_ns)?;
            let below = self.places.all()[place].target.volume.inode_dev;
            self.own_head(now_ns, "oneflush_layer");
            writeln!(
                self.line,
                "dev {major},{minor} on a file of dev {},{} ino {}",
                below.0, below.1, backing.inode
            )?;
            self.out.write_all(&self.line)?;
        }
        Ok(())
    }

    /// Where the file systems' journals are.
    fn areas(&mut self) -> io::Result<()> {
        let of = |place: &Place| {
            let journal = place.attribution.geometry.journal().to_vec();
            journal.into_iter().map(|area| (place.target.volume.disk, area)).collect::<Vec<_>>()
        };
        for ((major, minor), area) in self.places.all().iter().flat_map(of).collect::<Vec<_>>() {
            let (sector, sectors) =
                (area.start / SECTOR_BYTES, (area.end - area.start) / SECTOR_BYTES);
            self.own_head(0, "oneflush_area");
            writeln!(self.line, "dev {major},{minor} sector {sector} sectors {sectors} journal")?;
            self.out.write_all(&self.line)?;
        }
        Ok(())
    }
}

fn recorder() -> String {
    format!("oneflush trace {}", env!("CARGO_PKG_VERSION"))
}

fn kernel() -> String {
    let kernel = rustix::system::uname();
    let (release, machine) =
        (kernel.release().to_string_lossy(), kernel.machine().to_string_lossy());
    format!("Linux {release} {machine}")
}

/// What the events' clock shows at a time in UTC: `2026-11-28T22:44:10.123456789Z at 12345.6789…`.
fn clock() -> String {
    let before_ns = now_ns();
    let real = clock_gettime(ClockId::Realtime);
    let after_ns = now_ns();
    let at_ns = before_ns + (after_ns - before_ns) / 2;
    let unix_ns = real.tv_sec.unsigned_abs() * 1_000_000_000 + real.tv_nsec.unsigned_abs();
    let text = utc::text(unix_ns);
    format!("{text} at {}.{:09}", at_ns / 1_000_000_000, at_ns % 1_000_000_000)
}
