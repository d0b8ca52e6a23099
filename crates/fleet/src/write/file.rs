//! A Parquet file that grows row by row, under a name that no reader looks at, until it is whole.

use std::borrow::Cow;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use tempfile::NamedTempFile;

use crate::dataset::{self, Dataset};
use crate::error::FleetError;
use crate::folders::{self, TRIES};
use crate::schema::{self, Column, Kind};

/// Of a group. A row has less than 250 bytes before it is compressed, so a group has less than
/// 128 MB.
const ROWS_COUNT_MAX: usize = 500_000;
/// Rows that are encoded at once.
const BATCH_ROWS_COUNT: usize = 4096;
/// zstd's own default. Higher ones save little: columns are encoded before.
const ZSTD_LEVEL: i32 = 3;

/// A value of a column of the same kind.
pub(super) enum Cell<'a> {
    Text(Cow<'a, str>),
    Texts(Vec<String>),
    Whole(i64),
    Real(f64),
    /// Microseconds since 1970.
    Time(i64),
    Flag(bool),
    Null,
}

pub(super) struct ParquetFile {
    schema: Arc<Schema>,
    builders: Vec<Builder>,
    rows: usize,
    writer: ArrowWriter<File>,
    file: NamedTempFile,
}

impl ParquetFile {
    /// `writing`: the folder of files that are not whole.
    pub(super) fn begin(
        writing: &Path,
        columns: &[Column],
        labels: &[&str],
    ) -> Result<ParquetFile, FleetError> {
        let schema = Arc::new(schema::arrow(columns, labels.iter().copied()));
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).expect("a level")))
            .set_max_row_group_row_count(Some(ROWS_COUNT_MAX))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(made_by());
        for column in columns.iter().filter(|column| column.is_delta) {
            let path = ColumnPath::from(column.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        // Arrow's own copy of the schema would be a third of a small file.
        let options = ArrowWriterOptions::new()
            .with_properties(properties.build())
            .with_skip_arrow_metadata(true);
        let file = dataset::readable(tempfile::Builder::new().prefix("."), writing)
            .map_err(FleetError::io(writing, "writing in it"))?;
        let opened = file.reopen().map_err(FleetError::io(file.path(), "opening"))?;
        let writer = ArrowWriter::try_new_with_options(opened, Arc::clone(&schema), options)
            .map_err(FleetError::parquet(file.path()))?;
        let kinds = columns.iter().map(|column| column.kind);
        let builders = kinds.chain(labels.iter().map(|_| Kind::Text)).map(Builder::new).collect();
        Ok(ParquetFile { schema, builders, rows: 0, writer, file })
    }

    /// One cell for each column.
    pub(super) fn add<'a>(
        &mut self,
        cells: impl IntoIterator<Item = Cell<'a>>,
    ) -> Result<(), FleetError> {
        let mut cells = cells.into_iter();
        for builder in &mut self.builders {
            builder.append(cells.next().expect("a cell for each column"));
        }
        assert!(cells.next().is_none(), "a column for each cell");
        self.rows += 1;
        if self.rows == BATCH_ROWS_COUNT { self.hand_over() } else { Ok(()) }
    }

    fn hand_over(&mut self) -> Result<(), FleetError> {
        let arrays: Vec<ArrayRef> = self.builders.iter_mut().map(Builder::finish).collect();
        self.rows = 0;
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .map_err(Into::into)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(FleetError::parquet(self.file.path()))
    }

    /// No more rows come: all is written and synced, and still nobody sees it.
    pub(super) fn end(mut self) -> Result<Whole, FleetError> {
        if self.rows > 0 {
            self.hand_over()?;
        }
        let path = self.file.path().to_owned();
        let file = self.writer.into_inner().map_err(FleetError::parquet(&path))?;
        file.sync_all().map_err(FleetError::io(&path, "syncing"))?;
        Ok(Whole(self.file))
    }
}

/// A file that has only to be renamed.
pub(super) struct Whole(NamedTempFile);

impl Whole {
    /// Takes the place of what was there, below the data set's folder. Gives back whether there was
    /// something.
    pub(super) fn put(self, dataset: &Dataset, place: &str) -> Result<bool, FleetError> {
        let place = dataset.dir.join(place);
        let folder = place.parent().unwrap_or(&dataset.dir);
        let (mut file, mut tries) = (self.0, TRIES);
        loop {
            dataset.folders.make(&dataset.dir, folder)?;
            let is_replaced = place.exists();
            tries -= 1;
            match file.persist(&place) {
                Ok(_) => {
                    folders::sync(folder)?;
                    return Ok(is_replaced);
                }
                // Another writer has removed the folder, which was empty.
                Err(error) if error.error.kind() == ErrorKind::NotFound && tries > 0 => {
                    file = error.file;
                }
                Err(error) => {
                    return Err(FleetError::io(&place, "renaming a new file to it")(error.error));
                }
            }
        }
    }
}

enum Builder {
    Text(StringBuilder),
    Texts(ListBuilder<StringBuilder>),
    Whole(Int64Builder),
    Real(Float64Builder),
    Time(TimestampMicrosecondBuilder),
    Flag(BooleanBuilder),
}

impl Builder {
    fn new(kind: Kind) -> Builder {
        match kind {
            Kind::Text => Builder::Text(StringBuilder::new()),
            Kind::Texts => {
                Builder::Texts(ListBuilder::new(StringBuilder::new()).with_field(schema::item()))
            }
            Kind::Whole => Builder::Whole(Int64Builder::new()),
            Kind::Real => Builder::Real(Float64Builder::new()),
            Kind::Time => {
                Builder::Time(TimestampMicrosecondBuilder::new().with_timezone(schema::utc()))
            }
            Kind::Flag => Builder::Flag(BooleanBuilder::new()),
        }
    }

    fn append(&mut self, cell: Cell) {
        match (self, cell) {
            (Builder::Text(builder), Cell::Text(text)) => builder.append_value(text),
            (Builder::Text(builder), Cell::Null) => builder.append_null(),
            (Builder::Texts(builder), Cell::Texts(texts)) => {
                texts.iter().for_each(|text| builder.values().append_value(text));
                builder.append(true);
            }
            (Builder::Whole(builder), Cell::Whole(number)) => builder.append_value(number),
            (Builder::Whole(builder), Cell::Null) => builder.append_null(),
            (Builder::Real(builder), Cell::Real(number)) => builder.append_value(number),
            (Builder::Time(builder), Cell::Time(us)) => builder.append_value(us),
            (Builder::Time(builder), Cell::Null) => builder.append_null(),
            (Builder::Flag(builder), Cell::Flag(flag)) => builder.append_value(flag),
            _ => unreachable!("a cell is of its column's kind, which tests compare"),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Text(builder) => Arc::new(builder.finish()),
            Builder::Texts(builder) => Arc::new(builder.finish()),
            Builder::Whole(builder) => Arc::new(builder.finish()),
            Builder::Real(builder) => Arc::new(builder.finish()),
            Builder::Time(builder) => Arc::new(builder.finish()),
            Builder::Flag(builder) => Arc::new(builder.finish()),
        }
    }
}

pub(super) fn made_by() -> String {
    concat!("oneflush ", env!("CARGO_PKG_VERSION")).to_owned()
}
