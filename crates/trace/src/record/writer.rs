//! From events in the order of time to lines: what each event means for the next, and its line.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::mem;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::boundary::{Boundary, Seen};
use super::digits::decimal;
use super::engine::{self, Lsmvbt};
use super::events::{Does, Event, Events, Of};
use super::form::Form;
use super::frames::{Frames, is_wal};
use super::labels::Labels;
use super::output::Output;
use super::places::{Place, Places};
use super::threads::Threads;
use super::{Counts, RecordError, text};
use crate::escape::escape;
use crate::kernel::attribute::{What, Whose};
use crate::kernel::{Decoder, Field, Volume, device_pair};
use crate::model::SECTOR_BYTES;

pub(super) struct Writer<W: Write> {
    pub(super) places: Places,
    threads: Threads,
    pub(super) out: Output<W>,
    pub(super) line: Vec<u8>,
    /// Names of which the recording says that they are databases of LS-MVBT.
    lsmvbt: HashSet<Arc<[u8]>>,
    frames: Frames,
    pub(super) counts: Counts,
    /// The same when this file of the recording began.
    pub(super) counts_before: Counts,
    pub(super) labels: Labels,
    /// `None`: the recording is one file.
    pub(super) boundary: Option<Boundary>,
    pub(super) notices: Vec<String>,
    /// What was said of the file of labels.
    pub(super) labels_error: Option<String>,
}

/// A record, when and where it was made.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) time_ns: u64,
    pub(super) cpu: u32,
    pub(super) record: &'a [u8],
}

impl<W: Write> Writer<W> {
    pub(super) fn new(
        mut places: Places,
        threads: Threads,
        labels: Labels,
        out: Output<W>,
    ) -> Writer<W> {
        Writer {
            notices: mem::take(&mut places.notices),
            places,
            threads,
            out,
            line: Vec::new(),
            lsmvbt: HashSet::new(),
            frames: Frames::default(),
            counts: Counts::default(),
            counts_before: Counts::default(),
            labels,
            boundary: None,
            labels_error: None,
        }
    }

    /// The recording goes on in another file before what comes at this time.
    pub(super) fn is_boundary_before(&mut self, time_ns: u64) -> bool {
        let Some(boundary) = &mut self.boundary else { return false };
        boundary.is_before(time_ns, self.out.part_bytes())
    }

    /// Those that nobody has heard yet.
    pub(super) fn notices(&mut self) -> Vec<String> {
        let mut notices = mem::take(&mut self.notices);
        if let Some(parts) = self.out.as_parts() {
            notices.extend(parts.notices());
        }
        notices
    }

    /// What this file of the recording said is not said in the next.
    pub(super) fn forget_told(&mut self) {
        self.places.forget_told();
        self.lsmvbt.clear();
        self.threads.tidy_up();
        self.counts_before = self.counts;
    }

    /// Called before the events of a turn.
    pub(super) fn refresh(&mut self) -> Result<(), RecordError> {
        self.places.refresh()
    }

    /// `total`: since the begin.
    pub(super) fn lost(&mut self, total: u64) -> io::Result<()> {
        let new = total.saturating_sub(self.counts.lost);
        self.counts.lost = total;
        if new == 0 { Ok(()) } else { writeln!(self.out, "CPU:0 [LOST {new} EVENTS]") }
    }

    pub(super) fn event(
        &mut self,
        decoder: &Decoder,
        events: &Events,
        moment: Moment,
    ) -> io::Result<()> {
        let Moment { time_ns, cpu, record } = moment;
        let whose = self.attribute(decoder, time_ns, record);
        let Some(event) = events.of(record) else { return Ok(()) };
        let Some(thread) = event
            .fields
            .thread
            .and_then(|thread| thread.number(record))
            .map(|thread| thread as u32)
        else {
            return Ok(());
        };
        let place = self.places.of(event, record);
        self.note(event, place, thread, record);
        let Some(form) = event.form else { return Ok(()) };
        if !self.is_recorded(event, place, thread, record)
            || event.of == Of::WalFrames && !self.begins_frames(event, place, record)
        {
            return Ok(());
        }
        let inode = match (event.does, whose) {
            (Does::Queue, Some((Whose::File(inode), _))) => Some(inode),
            (Does::SyncEnter | Does::SyncExit | Does::OfFile | Does::Lock, _) => {
                event.fields.inode.and_then(|inode| inode.number(record))
            }
            _ => None,
        };
        if let Some(inode) = inode {
            self.tell(place, inode, time_ns)?;
        }
        self.see(event, place, thread, moment);
        let is_request = event.of.is_device();
        let target = &self.places.all()[place].target;
        let said = event
            .fields
            .device
            .and_then(|device| device.number(record))
            .filter(|_| target.is_below);
        let device = match said {
            _ if !is_request => target.volume.inode_dev,
            Some(number) => device_pair(number),
            // A queued request carries the partition's number, requests and sectors the disk's.
            None => target.volume.disk,
        };
        self.line.clear();
        let comm =
            if is_request { event.fields.comm.and_then(|comm| comm.text(record)) } else { None };
        text::head(
            &mut self.line,
            self.threads.get(thread, comm).head(),
            cpu,
            time_ns,
            &event.name,
        );
        if text::body(&mut self.line, form, &event.fields, record, device).is_none() {
            return Ok(());
        }
        if event.does == Does::Queue
            && let Some((whose, bytes)) = whose
        {
            self.say_whose(place, whose, bytes);
        }
        self.line.push(b'\n');
        self.counts.events += 1;
        self.out.write_all(&self.line)
    }

    /// The owner of a write that is queued, with its bytes.
    fn attribute(
        &mut self,
        decoder: &Decoder,
        time_ns: u64,
        record: &[u8],
    ) -> Option<(Whose, u64)> {
        let event = decoder.decode(time_ns, record)?;
        let attribution = &mut self.places.at(event.volume).attribution;
        match event.what {
            What::File { inode } => attribution.file(event.thread, inode),
            What::Extent { whose, address, length_bytes } => {
                attribution.extent(event.thread, whose, address, length_bytes);
            }
            What::Queued(write) if write.length_bytes > 0 => {
                let whose = attribution.whose(event.thread, &write);
                attribution.is_written(&write);
                return Some((whose, write.length_bytes));
            }
            What::Queued(_) | What::Merged(_) | What::Split(_) => {}
        }
        None
    }

    /// What the event means for those that follow.
    fn note(&mut self, event: &Event, place: usize, thread: u32, record: &[u8]) {
        let number = |field: Option<Field>| field?.number(record);
        match event.does {
            Does::SyncEnter => {
                self.places.at(place).attribution.sync(thread, number(event.fields.inode))
            }
            Does::SyncExit => self.places.at(place).attribution.sync(thread, None),
            Does::Allocate => {
                if let (Some(names), Some(inode)) =
                    (&mut self.places.at(place).names, number(event.fields.inode))
                {
                    names.allocated(inode);
                }
            }
            Does::Create => {
                if let Some(names) = &mut self.places.at(place).names {
                    names.creates(thread);
                }
            }
            Does::Get => {
                if let (Some(names), Some(inode)) =
                    (&mut self.places.at(place).names, number(event.fields.inode))
                {
                    names.got(thread, inode);
                }
            }
            Does::Fork => {
                if let Some(child) = number(event.fields.child) {
                    self.threads.forked(thread, child as u32);
                }
            }
            Does::End => {
                self.threads.ended(thread);
                self.places.thread_ended(thread);
                if let Some(boundary) = &mut self.boundary {
                    boundary.thread_ended(thread);
                }
            }
            Does::Exec => self.threads.renamed(thread),
            Does::Print
            | Does::Queue
            | Does::Request
            | Does::Complete
            | Does::Remap
            | Does::OfFile => {}
            Does::Lock => self.frames.ended(),
        }
    }

    /// What the event says of the next boundary.
    fn see(&mut self, event: &Event, place: usize, thread: u32, moment: Moment) {
        let Some(boundary) = &mut self.boundary else { return };
        if event.of == Of::All {
            return;
        }
        let number = |field: Option<Field>| field?.number(moment.record);
        let request = || {
            let (sector, count) =
                (number(event.fields.sector)?, number(event.fields.sectors).unwrap_or(0));
            let sectors = if count == 0 { 0..0 } else { sector..sector.saturating_add(count) };
            Some((self.places.all()[place].target.volume.disk, sectors))
        };
        let seen = match event.does {
            Does::SyncEnter => Some(Seen::SyncBegins(thread)),
            Does::SyncExit => Some(Seen::SyncEnds(thread)),
            Does::Queue | Does::Request => {
                request().map(|(disk, sectors)| Seen::Asked(disk, sectors))
            }
            Does::Complete => request().map(|(disk, sectors)| Seen::Ended(disk, sectors)),
            _ => None,
        };
        boundary.see(moment.time_ns, seen.unwrap_or(Seen::Else));
    }

    fn is_recorded(&mut self, event: &Event, place: usize, thread: u32, record: &[u8]) -> bool {
        let target = &self.places.all()[place].target;
        let is_below = target.is_below;
        if self.threads.are_all()
            && (target.volume.partition.is_none() || event.does == Does::Remap)
        {
            return true;
        }
        let number = |field: Option<Field>| field?.number(record);
        let range = |sector: Option<u64>| -> Option<Range<u64>> {
            let (sector, count) = (sector?, number(event.fields.sectors)?);
            Some(if count == 0 { 0..0 } else { sector..sector.saturating_add(count) })
        };
        let sectors = || range(number(event.fields.sector));
        let flags = || event.fields.flags.and_then(|flags| flags.text(record));
        let asks_flush = || flags().is_some_and(|rwbs| rwbs.contains(&b'F'));
        match event.does {
            Does::Queue => {
                let is_recorded = self.threads.is_recorded(thread);
                // A part of a request above is sent by a thread of the kernel's.
                let Some(sectors) = sectors() else { return is_recorded };
                if !is_recorded {
                    return is_below && self.places.has(place, &sectors);
                }
                self.places.at(place).own.queue(sectors, asks_flush());
                true
            }
            Does::Remap => {
                let from = number(event.fields.from_device);
                let parts = (sectors(), from, range(number(event.fields.from_sector)));
                let (Some(sectors), Some(from), Some(from_sectors)) = parts else { return false };
                self.places.remap(place, sectors, (from, from_sectors), asks_flush())
            }
            Does::Request => sectors().is_some_and(|sectors| self.places.has(place, &sectors)),
            Does::Complete => sectors().is_some_and(|sectors| {
                let is_recorded = self.places.has(place, &sectors);
                self.places.complete(place, &sectors);
                is_recorded
            }),
            _ => event.form == Some(Form::Marker) || self.threads.is_recorded(thread),
        }
    }

    /// The write into the page cache is one of a WAL, and no line before it tells it.
    fn begins_frames(&mut self, event: &Event, place: usize, record: &[u8]) -> bool {
        let number = |field: Option<Field>| field?.number(record);
        let fields = &event.fields;
        let numbers = (number(fields.inode), number(fields.position), number(fields.length));
        let (Some(inode), Some(position), Some(length)) = numbers else { return false };
        let names = &mut self.places.at(place).names;
        let is_named =
            || names.as_mut().and_then(|names| names.now(inode)).is_some_and(|name| is_wal(&name));
        self.frames.begins((place, inode), position, length, is_named)
    }

    /// Writes an inode's name before the first line that speaks of it.
    pub(super) fn tell(&mut self, place: usize, inode: u64, time_ns: u64) -> io::Result<()> {
        let Place { names, target, .. } = self.places.at(place);
        let Some(name) = names.as_mut().and_then(|names| names.news(inode)) else { return Ok(()) };
        let (major, minor) = target.volume.inode_dev;
        let volume = target.volume.clone();
        self.own_head(time_ns, "oneflush_file");
        write!(self.line, "dev {major},{minor} ino {inode} name ")?;
        self.line.extend(escape(name.as_deref().unwrap_or_default()));
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        match name {
            Some(name) => self.tell_engine(name, inode, &volume, time_ns),
            None => Ok(()),
        }
    }

    /// Writes what the file is, behind its name.
    fn tell_engine(
        &mut self,
        name: Arc<[u8]>,
        inode: u64,
        volume: &Volume,
        time_ns: u64,
    ) -> io::Result<()> {
        let found = engine::of(Path::new(OsStr::from_bytes(&name)), inode, volume);
        // What was one before may be another file now.
        let Lsmvbt { page_bytes, head } = match found {
            Some(found) => {
                self.lsmvbt.insert(name);
                found
            }
            None if self.lsmvbt.remove(&name) => Lsmvbt { page_bytes: 0, head: Vec::new() },
            None => return Ok(()),
        };
        let pieces = head.into_iter().map(Some);
        let none = if pieces.len() == 0 { Some(None) } else { None };
        for piece in pieces.chain(none) {
            let (major, minor) = volume.inode_dev;
            self.own_head(time_ns, "oneflush_engine");
            write!(self.line, "dev {major},{minor} ino {inode} lsmvbt page {page_bytes}")?;
            if let Some((offset, area)) = piece {
                let (major, minor) = volume.disk;
                let (sector, sectors) =
                    (area.start / SECTOR_BYTES, (area.end - area.start) / SECTOR_BYTES);
                write!(self.line, " head {offset} at {major},{minor} {sector} + {sectors}")?;
            }
            self.line.push(b'\n');
            self.out.write_all(&self.line)?;
        }
        Ok(())
    }

    pub(super) fn own_head(&mut self, time_ns: u64, event: &str) {
        self.line.clear();
        let process = std::process::id();
        let own = text::thread(process, b"oneflush", Some(process));
        text::head(&mut self.line, &own, 0, time_ns, event);
    }

    fn say_whose(&mut self, place: usize, whose: Whose, bytes: u64) {
        let counts = &mut self.counts;
        let target = &self.places.all()[place].target;
        let count = match whose {
            Whose::File(inode) => {
                self.line.extend_from_slice(b" oneflush=data dev ");
                text::pair(&mut self.line, target.volume.inode_dev);
                self.line.extend_from_slice(b" ino ");
                decimal(&mut self.line, inode);
                let (major, minor) = target.volume.inode_dev;
                if self.places.targets.is_named(place)
                    && self.out.is_own((rustix::fs::makedev(major, minor), inode))
                {
                    counts.own_bytes += bytes;
                }
                &mut counts.data_bytes
            }
            Whose::Journal => {
                self.line.extend_from_slice(b" oneflush=journal");
                &mut counts.journal_bytes
            }
            Whose::Metadata => {
                self.line.extend_from_slice(b" oneflush=metadata");
                &mut counts.metadata_bytes
            }
            Whose::Unknown => &mut counts.unknown_bytes,
        };
        if self.places.targets.is_named(place) {
            *count += bytes;
        }
    }
}
