//! The table on a screen, and what keys do.

use std::io;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use oneflush_measure::interrupt;
use oneflush_trace::live::{Session, Snapshot};
use rustix::process::{Signal, getpid, kill_process};

use super::render;
use super::terminal::Terminal;
use super::view::{Sort, View};

/// So late a signal or a failure is noticed at most.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// What a key asks for besides another view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    Draw,
    Quit,
    /// Ctrl-Z: back to the shell until `fg`.
    Suspend,
}

/// Until a key or a signal ends it, or the session has failed.
pub fn show(session: &Session, view: &mut View, interval: Duration) -> io::Result<()> {
    let mut terminal = Terminal::enter()?;
    let mut snapshot = session.snapshot();
    let mut due = Instant::now() + interval;
    draw(&terminal, view, &snapshot)?;
    while !interrupt::requested() && !session.has_failed() {
        let mut asked = Asked::Nothing;
        if event::poll(PATIENCE.min(due.saturating_duration_since(Instant::now())))? {
            asked = match event::read()? {
                Event::Key(key) => press(view, key),
                Event::Resize(..) => Asked::Draw,
                _ => Asked::Nothing,
            };
        }
        match asked {
            Asked::Quit => break,
            Asked::Suspend => {
                drop(terminal);
                kill_process(getpid(), Signal::TSTP)?;
                terminal = Terminal::enter()?;
            }
            Asked::Nothing | Asked::Draw => {}
        }
        let is_due = Instant::now() >= due;
        if is_due {
            due = Instant::now() + interval;
            if !view.is_paused {
                snapshot = session.snapshot();
            }
        }
        if is_due || asked != Asked::Nothing {
            draw(&terminal, view, &snapshot)?;
        }
    }
    Ok(())
}

fn draw(terminal: &Terminal, view: &View, snapshot: &Snapshot) -> io::Result<()> {
    let size = terminal.size()?;
    let lines = if view.is_help {
        render::help(view, size)
    } else {
        render::table(view, snapshot.clone(), Some(size))
    };
    terminal.draw(&lines)
}

fn press(view: &mut View, key: KeyEvent) -> Asked {
    if key.kind == KeyEventKind::Release {
        return Asked::Nothing;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control => Asked::Quit,
        KeyCode::Char('z') if is_control => Asked::Suspend,
        KeyCode::Char('l') if is_control => Asked::Draw,
        _ if is_control => Asked::Nothing,
        KeyCode::Char('q') => Asked::Quit,
        KeyCode::Char('?') => {
            view.is_help = !view.is_help;
            Asked::Draw
        }
        KeyCode::Esc if view.is_help => {
            view.is_help = false;
            Asked::Draw
        }
        KeyCode::Char(' ') => {
            view.is_paused = !view.is_paused;
            Asked::Draw
        }
        KeyCode::Char(key) => match Sort::of_key(key) {
            Some(sort) => {
                view.sort = sort;
                view.is_help = false;
                Asked::Draw
            }
            None => Asked::Nothing,
        },
        _ => Asked::Nothing,
    }
}
