//! The terminal while the screen is shown: raw, on its other page, without a cursor. It is given
//! back as it was however that ends.
//!
//! In the ordinary cases `Drop` does that, since keys and signals only end the loop. Where a thread
//! panics a hook does it, so that its message is seen. Only SIGKILL leaves the terminal as it is;
//! `reset` helps then.

use std::io::{self, Write};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Color, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::render::{Line, Look, Size};

/// Whether it is ours just now.
static IS_OURS: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

pub struct Terminal {
    has_colour: bool,
}

impl Terminal {
    pub fn enter() -> io::Result<Terminal> {
        HOOK.call_once(|| {
            let told = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                give_back();
                told(info);
            }));
        });
        // Before the first change, so that what fails half-way is undone.
        IS_OURS.store(true, Ordering::SeqCst);
        let terminal = Terminal {
            has_colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(terminal)
    }

    pub fn size(&self) -> io::Result<Size> {
        let (columns, lines) = size()?;
        Ok(Size { columns: columns.into(), lines: lines.into() })
    }

    /// All lines at once, so that nothing flickers.
    pub fn draw(&self, lines: &[Line]) -> io::Result<()> {
        let mut out = Vec::new();
        for (n, line) in lines.iter().enumerate() {
            queue!(out, MoveTo(0, u16::try_from(n).unwrap_or(u16::MAX)))?;
            self.begin_look(&mut out, line.look)?;
            out.write_all(line.text.as_bytes())?;
            queue!(out, SetAttribute(Attribute::Reset), Clear(ClearType::UntilNewLine))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        // A thread that failed has given the terminal back; its message stays.
        if IS_OURS.load(Ordering::SeqCst) {
            io::stdout().write_all(&out)?;
            io::stdout().flush()?;
        }
        Ok(())
    }

    fn begin_look(&self, out: &mut Vec<u8>, look: Look) -> io::Result<()> {
        let (attribute, colour) = match look {
            Look::Plain => return Ok(()),
            Look::Title => (Attribute::Bold, None),
            Look::Head => (Attribute::Reverse, None),
            Look::Total => (Attribute::Bold, Some(Color::Cyan)),
            Look::Silent => (Attribute::Dim, Some(Color::DarkGrey)),
            Look::Alarm => (Attribute::Bold, Some(Color::Red)),
        };
        queue!(out, SetAttribute(attribute))?;
        match colour {
            Some(colour) if self.has_colour => queue!(out, SetForegroundColor(colour)),
            _ => Ok(()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    if IS_OURS.swap(false, Ordering::SeqCst) {
        // A terminal that is gone needs nothing back.
        let _ = execute!(io::stdout(), SetAttribute(Attribute::Reset), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}
