//! The events of a slice: recording on, recording off, what the buffers hold.

use oneflush_trace::kernel::attribute::Event;
use oneflush_trace::kernel::{Decoder, Instance, Scope, Volume};

use super::ObserveError;
use super::drain::Drain;

/// Memory for events, all processors together; a slice of 10,000 commits needs about 5 MiB.
const BUFFER_KIB_TOTAL: usize = 64 << 10;
const BUFFER_KIB_PER_CPU_MAX: usize = 16 << 10;

/// Reading begins when a processor's buffer is this full: early enough to lose nothing, and never
/// in a short slice.
const WAKE_PERCENT: u32 = 25;

#[derive(Debug)]
pub(super) struct Trace {
    /// Above `instance`, so dropped before it: an instance in use cannot be removed.
    drain: Option<Drain>,
    decoder: Decoder,
    instance: Instance,
}

/// What a slice left in the buffers.
pub(super) struct Recorded {
    /// In the order of time.
    pub(super) events: Vec<Event>,
    pub(super) lost: u64,
}

impl Trace {
    pub(super) fn open(volume: &Volume) -> Result<Trace, ObserveError> {
        let instance = Instance::make()?;
        instance.size(BUFFER_KIB_TOTAL, BUFFER_KIB_PER_CPU_MAX, WAKE_PERCENT)?;
        // The disk carries nothing else. Some kernels give a request the partition's number, others
        // the disk's.
        let disk = Volume { partition: None, ..volume.clone() };
        let volumes = if volume.partition.is_some() { vec![volume, &disk] } else { vec![volume] };
        let decoder = Decoder::enable(&instance, &volumes, Scope::Writes)?;
        Ok(Trace { drain: None, decoder, instance })
    }

    pub(super) fn start(&mut self) -> Result<(), ObserveError> {
        self.drain = None;
        self.instance.clear()?;
        self.drain = Some(Drain::start(self.instance.buffers()?, self.decoder.clone())?);
        Ok(self.instance.write("tracing_on", "1")?)
    }

    pub(super) fn stop(&mut self) -> Result<Recorded, ObserveError> {
        self.instance.write("tracing_on", "0")?;
        let drain = self.drain.take().ok_or(ObserveError::NotStarted)?;
        let mut events = drain.finish()?;
        events.sort_by_key(|event| event.time_ns);
        Ok(Recorded { events, lost: self.instance.lost()? })
    }
}
