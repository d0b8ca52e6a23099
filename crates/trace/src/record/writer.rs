//! From events in the order of time to lines: what each means for those that follow, and how it is written.

use std::io::{self, Write};
use std::ops::Range;

use super::digits::decimal;
use super::events::{Does, Event, Events};
use super::names::Names;
use super::output::Output;
use super::own::Own;
use super::text::{self, Form};
use super::threads::Threads;
use super::{Counts, RecordError, Target};
use crate::escape::escape;
use crate::kernel::attribute::{Attribution, Geometry, What, Whose};
use crate::kernel::{Decoder, Field, FileSystem, KernelError};
use crate::model::SECTOR_BYTES;

pub(super) struct Writer<W: Write> {
    target: Target,
    attribution: Attribution,
    pub(super) names: Option<Names>,
    threads: Threads,
    own: Own,
    pub(super) out: Output<W>,
    line: Vec<u8>,
    pub(super) counts: Counts,
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
        target: Target,
        attribution: Attribution,
        names: Option<Names>,
        threads: Threads,
        out: Output<W>,
    ) -> Writer<W> {
        let (own, line, counts) = (Own::default(), Vec::new(), Counts::default());
        Writer { target, attribution, names, threads, own, out, line, counts }
    }

    pub(super) fn begin(&mut self) -> io::Result<()> {
        let kernel = rustix::system::uname();
        let (release, machine) = (kernel.release().to_string_lossy(), kernel.machine().to_string_lossy());
        writeln!(self.out, "# tracer: nop\n#")?;
        writeln!(self.out, "# oneflush trace {}, Linux {release} {machine}", env!("CARGO_PKG_VERSION"))?;
        writeln!(self.out, "# {}\n#", self.target.describe().replace('\n', " "))?;
        let (major, minor) = self.target.volume.disk;
        for area in self.attribution.geometry.journal().to_vec() {
            let (sector, sectors) = (area.start / SECTOR_BYTES, (area.end - area.start) / SECTOR_BYTES);
            self.own_head(0, "oneflush_area");
            writeln!(self.line, "dev {major},{minor} sector {sector} sectors {sectors} journal")?;
            self.out.write_all(&self.line)?;
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        let Counts { events, lost, .. } = self.counts;
        writeln!(self.out, "# end of the recording: {events} events, {lost} lost")
    }

    /// Before the events of a turn.
    pub(super) fn refresh(&mut self) -> Result<(), RecordError> {
        let volume = &self.target.volume;
        if let Some(names) = &mut self.names {
            let path = volume.mount_point.clone();
            names.refresh().map_err(|reason| KernelError::Read { path, reason })?;
        }
        if volume.file_system == FileSystem::Btrfs {
            // Chunks are allocated as the file system grows.
            self.attribution.geometry = Geometry::of(volume)?;
        }
        Ok(())
    }

    /// `total`: since the begin.
    pub(super) fn lost(&mut self, total: u64) -> io::Result<()> {
        let new = total.saturating_sub(self.counts.lost);
        self.counts.lost = total;
        if new == 0 { Ok(()) } else { writeln!(self.out, "CPU:0 [LOST {new} EVENTS]") }
    }

    pub(super) fn event(&mut self, decoder: &Decoder, events: &Events, moment: Moment) -> io::Result<()> {
        let Moment { time_ns, cpu, record } = moment;
        let whose = self.attribute(decoder, time_ns, record);
        let Some(event) = events.of(record) else { return Ok(()) };
        let Some(thread) = event.fields.thread.and_then(|thread| thread.number(record)).map(|thread| thread as u32)
        else {
            return Ok(());
        };
        self.note(event, thread, record);
        let Some(form) = event.form else { return Ok(()) };
        if !self.is_recorded(event, thread, record) {
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
            self.tell(inode, time_ns)?;
        }
        // What is queued carries the number of the partition, requests and sectors are the disk's.
        let volume = &self.target.volume;
        let is_request = matches!(form, Form::Queue | Form::Request | Form::Complete);
        let device = if is_request { volume.disk } else { volume.inode_dev };
        self.line.clear();
        let comm = if is_request { event.fields.comm.and_then(|comm| comm.text(record)) } else { None };
        text::head(&mut self.line, self.threads.get(thread, comm).head(), cpu, time_ns, &event.name);
        if text::body(&mut self.line, form, &event.fields, record, device).is_none() {
            return Ok(());
        }
        if event.does == Does::Queue
            && let Some((whose, bytes)) = whose
        {
            self.say_whose(whose, bytes);
        }
        self.line.push(b'\n');
        self.counts.events += 1;
        self.out.write_all(&self.line)
    }

    /// Whose a write is that is queued, with its bytes.
    fn attribute(&mut self, decoder: &Decoder, time_ns: u64, record: &[u8]) -> Option<(Whose, u64)> {
        let event = decoder.decode(time_ns, record)?;
        match event.what {
            What::File { inode } => self.attribution.file(event.thread, inode),
            What::Extent { whose, address, length_bytes } => {
                self.attribution.extent(event.thread, whose, address, length_bytes);
            }
            What::Queued(write) if write.length_bytes > 0 => {
                let whose = self.attribution.whose(event.thread, &write);
                self.attribution.is_written(&write);
                return Some((whose, write.length_bytes));
            }
            What::Queued(_) | What::Merged(_) | What::Split(_) => {}
        }
        None
    }

    /// What the event means for those that follow.
    fn note(&mut self, event: &Event, thread: u32, record: &[u8]) {
        let number = |field: Option<Field>| field?.number(record);
        match event.does {
            Does::SyncEnter => self.attribution.sync(thread, number(event.fields.inode)),
            Does::SyncExit => self.attribution.sync(thread, None),
            Does::Allocate => {
                if let (Some(names), Some(inode)) = (&mut self.names, number(event.fields.inode)) {
                    names.allocated(inode);
                }
            }
            Does::Fork => {
                if let Some(child) = number(event.fields.child) {
                    self.threads.forked(thread, child as u32);
                }
            }
            Does::End => {
                self.threads.ended(thread);
                self.attribution.thread_ended(thread);
            }
            Does::Exec => self.threads.renamed(thread),
            Does::Print | Does::Queue | Does::Request | Does::Complete | Does::OfFile | Does::Lock => {}
        }
    }

    fn is_recorded(&mut self, event: &Event, thread: u32, record: &[u8]) -> bool {
        let sectors = || -> Option<Range<u64>> {
            let count = event.fields.sectors?.number(record)?;
            let sector = event.fields.sector?.number(record)?;
            Some(if count == 0 { 0..0 } else { sector..sector.saturating_add(count) })
        };
        if self.threads.are_all() && self.target.volume.partition.is_none() {
            return true;
        }
        match event.does {
            Does::Queue => {
                let is_recorded = self.threads.is_recorded(thread);
                if is_recorded && let Some(sectors) = sectors() {
                    let asks_flush = event
                        .fields
                        .flags
                        .and_then(|flags| flags.text(record))
                        .is_some_and(|rwbs| rwbs.contains(&b'F'));
                    self.own.queue(sectors, asks_flush);
                }
                is_recorded
            }
            Does::Request => sectors().is_some_and(|sectors| self.own.has(&sectors)),
            Does::Complete => sectors().is_some_and(|sectors| {
                let is_recorded = self.own.has(&sectors);
                self.own.complete(sectors);
                is_recorded
            }),
            _ => event.form == Some(Form::Marker) || self.threads.is_recorded(thread),
        }
    }

    /// Writes an inode's name before the first line that speaks of it.
    fn tell(&mut self, inode: u64, time_ns: u64) -> io::Result<()> {
        let Some(name) = self.names.as_mut().and_then(|names| names.news(inode)) else { return Ok(()) };
        let (major, minor) = self.target.volume.inode_dev;
        self.own_head(time_ns, "oneflush_file");
        write!(self.line, "dev {major},{minor} ino {inode} name ")?;
        self.line.extend(escape(&name.unwrap_or_default()));
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }

    fn own_head(&mut self, time_ns: u64, event: &str) {
        self.line.clear();
        let process = std::process::id();
        let own = text::thread(process, b"oneflush", Some(process));
        text::head(&mut self.line, &own, 0, time_ns, event);
    }

    fn say_whose(&mut self, whose: Whose, bytes: u64) {
        let counts = &mut self.counts;
        match whose {
            Whose::File(inode) => {
                counts.data_bytes += bytes;
                self.line.extend_from_slice(b" oneflush=data dev ");
                text::pair(&mut self.line, self.target.volume.inode_dev);
                self.line.extend_from_slice(b" ino ");
                decimal(&mut self.line, inode);
            }
            Whose::Journal => {
                counts.journal_bytes += bytes;
                self.line.extend_from_slice(b" oneflush=journal");
            }
            Whose::Metadata => {
                counts.metadata_bytes += bytes;
                self.line.extend_from_slice(b" oneflush=metadata");
            }
            Whose::Unknown => counts.unknown_bytes += bytes,
        }
    }
}
