//! The transactions as a Parquet file: the columns of the CSV, each with its type, all of them
//! optional.
//!
//! Rows are kept until there is a group of them, so memory does not grow with the trace.

use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use oneflush_trace::identify::{Scope, Transaction};
use oneflush_trace::model::Names;

use super::record::{self, COLUMNS, Cell, Kind};
use crate::output::Output;

/// Of a group; a reader that wants one column reads it in pieces of so many.
const ROWS_COUNT_MAX: usize = 16_384;

pub struct ParquetFile {
    name: String,
    writer: SerializedFileWriter<Output>,
    columns: Vec<Column>,
}

#[derive(Default)]
struct Column {
    texts: Vec<ByteArray>,
    reals: Vec<f64>,
    wholes: Vec<i64>,
    /// For each row 1, or 0 where there is no value.
    levels: Vec<i16>,
}

impl ParquetFile {
    pub fn create(path: &Path) -> Result<ParquetFile, String> {
        let output = Output::named("--parquet", path)?;
        let name = output.name();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("oneflush ", env!("CARGO_PKG_VERSION")).to_owned());
        let schema = parse_message_type(&schema()).map_err(|error| format!("{name}: {error}"))?;
        let writer =
            SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties.build()))
                .map_err(|error| format!("{name}: {error}"))?;
        Ok(ParquetFile { name, writer, columns: columns() })
    }

    pub fn add(
        &mut self,
        trace: &str,
        transaction: &Transaction,
        known: Scope,
        names: &Names,
    ) -> Result<(), String> {
        for (column, cell) in
            self.columns.iter_mut().zip(record::cells(trace, transaction, known, names))
        {
            column.levels.push(i16::from(!matches!(cell, Cell::Nothing)));
            match cell {
                Cell::Text(text) => column.texts.push(ByteArray::from(text.into_bytes())),
                Cell::Real(number) => column.reals.push(number),
                // No count and no number of a process comes near the bound.
                Cell::Whole(number) => {
                    column.wholes.push(i64::try_from(number).unwrap_or(i64::MAX))
                }
                Cell::Nothing => {}
            }
        }
        if self.rows() < ROWS_COUNT_MAX {
            return Ok(());
        }
        self.write_group().map_err(|error| format!("{}: {error}", self.name))
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.levels.len())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let full = std::mem::replace(&mut self.columns, columns());
        let mut group = self.writer.next_row_group()?;
        for (column, (_, kind)) in full.iter().zip(COLUMNS) {
            let Some(mut writer) = group.next_column()? else { break };
            let levels = Some(&column.levels[..]);
            match kind {
                Kind::Text => {
                    writer.typed::<ByteArrayType>().write_batch(&column.texts, levels, None)?
                }
                Kind::Real => {
                    writer.typed::<DoubleType>().write_batch(&column.reals, levels, None)?
                }
                Kind::Whole => {
                    writer.typed::<Int64Type>().write_batch(&column.wholes, levels, None)?
                }
            };
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Nothing else comes: the file takes its place.
    pub fn finish(mut self) -> Result<(), String> {
        let written = if self.rows() > 0 { self.write_group() } else { Ok(()) };
        let output = written.and_then(|()| self.writer.into_inner());
        output.map_err(|error| format!("{}: {error}", self.name))?.finish()
    }
}

fn columns() -> Vec<Column> {
    COLUMNS.iter().map(|_| Column::default()).collect()
}

fn schema() -> String {
    let fields: String = COLUMNS
        .iter()
        .map(|(name, kind)| match kind {
            Kind::Text => format!("optional binary {name} (STRING); "),
            Kind::Real => format!("optional double {name}; "),
            Kind::Whole => format!("optional int64 {name}; "),
        })
        .collect();
    format!("message transaction {{ {fields}}}")
}
