//! Stubs for code that wants a world below and does not use it in a test.

use std::sync::Arc;

use crate::config::{Options, StrategyKind};
use crate::engine::{Progress, RunCheckpoint};
use crate::error::Code;
use crate::journal_end::Seen;
use crate::port::{AtomicWrite, Below, ExchangeFile, SideFiles};
use crate::strategy::{Common, ImageMemory, LogFile, LogFiles, LogInUse, Room};

pub struct NoCheckpoints;

impl RunCheckpoint for NoCheckpoints {
    fn run(&self, _: &str, _: &Options) -> Result<Progress, String> {
        Err("no checkpoints here".to_owned())
    }

    fn write_out(&self, _: &str, _: u64, _: u64) {}

    fn warn(&self, _: &str) {}
}

pub struct NoLogs;

impl SideFiles for NoLogs {
    fn delete(&self, _: &str, _: bool) -> Result<(), Code> {
        Ok(())
    }

    fn rename(&self, _: &str, _: &str) -> Result<(), Code> {
        unreachable!()
    }

    fn keep_wal(&self, _: &str) -> Result<(), Code> {
        Err(Code::CANTOPEN)
    }

    fn take_back_wal(&self, _: &str, _: &mut dyn FnMut(&dyn Below) -> bool) -> bool {
        false
    }

    fn exists(&self, _: &str) -> Result<bool, Code> {
        Ok(false)
    }

    fn is_there(&self, _: &str) -> Result<bool, Code> {
        Ok(false)
    }

    fn warn(&self, _: &str) {}
}

impl LogFiles for NoLogs {
    fn common_in_use(&self, _: &str, _: &str) -> Result<Option<Arc<dyn Common>>, Code> {
        Ok(None)
    }

    fn common(&self, _: &str, _: &str, _: std::time::Duration) -> Result<Arc<dyn Common>, Code> {
        Err(Code::CANTOPEN)
    }

    fn look_on(&self, _: &str, _: StrategyKind) -> Result<Option<LogInUse>, Code> {
        Ok(None)
    }

    fn open_log(&self, _: &str) -> Result<Option<LogFile>, Code> {
        Ok(None)
    }

    fn open_log_to_read(&self, _: &str) -> Result<Option<LogFile>, Code> {
        Ok(None)
    }

    fn create_log(&self, _: &str) -> Result<LogFile, Code> {
        Err(Code::CANTOPEN)
    }

    fn claim_image(&self, _: &str) -> Result<(), Code> {
        Ok(())
    }

    fn map_image(&self, _: &str, _: &[u8]) -> Option<Box<dyn ImageMemory>> {
        None
    }

    fn will_read(&self, _: &str, _: &[u32], _: usize) {}

    fn fold_wal(&self, _: &str) -> Result<bool, String> {
        Ok(true)
    }

    fn recover(&self, _: &str, _: StrategyKind) -> Result<bool, String> {
        Ok(true)
    }

    fn is_in_place(&self, _: &str, _: oneflush_blocklog::Uuid) -> Result<bool, Code> {
        Ok(false)
    }

    fn retire(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn leave_log(&self, _: &str) -> Result<bool, String> {
        Ok(true)
    }

    fn header(&self, _: &str) -> Result<Option<[u8; 100]>, Code> {
        Ok(None)
    }

    fn atomic_write(&self, _: &str) -> Result<Box<dyn AtomicWrite>, String> {
        Err("there is none in this test".to_owned())
    }

    fn exchange_file(&self, _: &str) -> Result<Box<dyn ExchangeFile>, String> {
        Err("there is none in this test".to_owned())
    }

    fn open_journal(&self, _: &str) -> Result<Option<Box<dyn Below>>, Code> {
        Ok(None)
    }

    fn settle_journals(&self, _: &str, _: bool, _: &mut Seen) -> Result<bool, Code> {
        Ok(true)
    }

    fn create_journal(&self, _: &str) -> Result<Box<dyn Below>, Code> {
        Err(Code::CANTOPEN)
    }

    fn sync_database(&self, _: &str) -> Result<(), Code> {
        Ok(())
    }

    fn room(&self, _: &str) -> Option<Room> {
        None
    }
}
