//! The single requests of a transaction, kept only on demand
//! ([`super::Identifier::keep_accesses`]).

use super::requests::Request;
use super::traffic::Class;
use crate::model::DeviceId;

/// So many requests of one transaction are kept. What comes later is left out.
pub const ACCESSES_COUNT_MAX: usize = 4096;

/// One request that a transaction sent or caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub begin_ns: u64,
    pub done_ns: u64,
    pub device: DeviceId,
    /// Sector on the device. Of a system call (`is_call`), the offset in its file in bytes.
    /// `u64::MAX`: unknown.
    pub sector: u64,
    /// 0: a flush alone, which is of no class.
    pub bytes: u64,
    pub class: Class,
    pub flushes: u64,
    pub is_call: bool,
}

/// `None`: nobody asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Accesses(Option<Vec<Access>>);

impl Accesses {
    pub(super) fn new(keeps: bool) -> Accesses {
        Accesses(keeps.then(Vec::new))
    }

    pub(super) fn push(&mut self, class: Class, request: &Request) {
        let Some(kept) = self.0.as_mut().filter(|kept| kept.len() < ACCESSES_COUNT_MAX) else {
            return;
        };
        let &Request { begin_ns, done_ns, device, sector, bytes, flushes, is_call, .. } = request;
        kept.push(Access { begin_ns, done_ns, device, sector, bytes, class, flushes, is_call });
    }

    /// Takes the requests of a part.
    pub(super) fn append(&mut self, part: &mut Accesses) {
        let Some(part) = part.0.take() else { return };
        let kept = self.0.get_or_insert_default();
        let room = ACCESSES_COUNT_MAX - kept.len();
        kept.extend(part.into_iter().take(room));
    }

    /// The requests in the order of their beginnings.
    pub(super) fn into_vec(self) -> Vec<Access> {
        let mut kept = self.0.unwrap_or_default();
        kept.sort_by_key(|access| access.begin_ns);
        kept
    }
}
