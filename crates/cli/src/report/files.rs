//! Where the results of a report go.

use std::io;
use std::path::{Path, PathBuf};

use super::options::Options;
use crate::failure::Failure;
use crate::output::Output;

/// All was told, or could not be written.
pub fn end(told: Result<(), Unwritten>, files: Files) -> Result<(), Failure> {
    match told {
        Ok(()) => files.finish().map_err(Failure::failed),
        // Whoever reads has seen enough (`| head`).
        Err((name, error))
            if error.kind() == io::ErrorKind::BrokenPipe && name == STANDARD_OUTPUT =>
        {
            files.finish_files().map_err(Failure::failed)
        }
        Err((name, error)) => Err(Failure::failed(format!("{name}: {error}"))),
    }
}

const STANDARD_OUTPUT: &str = "standard output";

/// Where the results go.
pub struct Files {
    pub stdout: Output,
    pub page: Option<Output>,
    pub perfetto: Option<Output>,
}

impl Files {
    pub fn open(options: &Options) -> Result<Files, String> {
        let file = |name: &str, path: &Option<PathBuf>| {
            path.as_deref().map(|path: &Path| Output::named(name, path)).transpose()
        };
        Ok(Files {
            page: file("-o", &options.output)?,
            perfetto: file("--perfetto", &options.perfetto)?,
            stdout: Output::stdout(),
        })
    }

    fn finish(self) -> Result<(), String> {
        self.stdout.finish()?;
        [self.page, self.perfetto].into_iter().flatten().try_for_each(Output::finish)
    }

    fn finish_files(self) -> Result<(), String> {
        [self.page, self.perfetto].into_iter().flatten().try_for_each(Output::finish)
    }
}

/// An error of writing, with the name of what was written.
pub type Unwritten = (String, io::Error);

pub fn write(output: &mut Output, text: &str) -> Result<(), Unwritten> {
    output.line(text).map_err(|error| (output.name(), error))
}
