//! The rows of one file, as arrays: only the columns that are needed, texts as dictionaries.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use super::condition;
use super::guard::guarded;
use crate::schema::Kind;

const BATCH_ROWS_COUNT: usize = 8192;

pub(super) struct Rows {
    reader: ParquetRecordBatchReader,
    /// Names of all columns of the file.
    pub(super) columns: Vec<String>,
}

impl Rows {
    /// `wanted`: those that are not in the file are left out.
    pub(super) fn open(path: &Path, wanted: &[&str]) -> Result<Rows, ParquetError> {
        guarded(|| Rows::open_unguarded(path, wanted))
    }

    fn open_unguarded(path: &Path, wanted: &[&str]) -> Result<Rows, ParquetError> {
        let file = File::open(path).map_err(|error| ParquetError::External(error.into()))?;
        let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let known = ArrowReaderMetadata::load(&file, plain)?;
        let as_dictionary = |field: &Arc<Field>| match field.data_type() {
            DataType::Utf8 => {
                let kind =
                    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                Arc::new(Field::new(field.name(), kind, field.is_nullable()))
            }
            _ => Arc::clone(field),
        };
        for field in known.schema().fields().iter() {
            if wanted.contains(&field.name().as_str()) {
                check_type(field)?;
            }
        }
        let fields: Vec<_> = known.schema().fields().iter().map(as_dictionary).collect();
        let columns = fields.iter().map(|field| field.name().clone()).collect();
        let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
        let typed = ArrowReaderMetadata::try_new(Arc::clone(known.metadata()), options)?;
        let mask = ProjectionMask::columns(
            known.metadata().file_metadata().schema_descr(),
            wanted.iter().copied(),
        );
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, typed)
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS_COUNT)
            .build()?;
        Ok(Rows { reader, columns })
    }
}

/// A number of another type would be read as none at all.
fn check_type(field: &Field) -> Result<(), ParquetError> {
    let (is_right, wanted) = match condition::kind(field.name()) {
        Some(Kind::Whole) => (*field.data_type() == DataType::Int64, "Int64"),
        Some(Kind::Real) => (*field.data_type() == DataType::Float64, "Float64"),
        Some(Kind::Time) => (
            matches!(field.data_type(), DataType::Timestamp(TimeUnit::Microsecond, _)),
            "Timestamp(Microsecond)",
        ),
        _ => return Ok(()),
    };
    if is_right {
        return Ok(());
    }
    let (name, there) = (field.name(), field.data_type());
    Err(ParquetError::General(format!("column {name} is {there}, and not {wanted}")))
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = &mut self.reader;
        guarded(|| reader.next().transpose().map_err(Into::into)).transpose()
    }
}

/// A column of whole numbers or times; null and missing are 0.
pub(super) struct Wholes<'a> {
    array: Option<&'a [i64]>,
    nulls: Option<&'a dyn Array>,
}

impl<'a> Wholes<'a> {
    pub(super) fn of(batch: &'a RecordBatch, name: &str) -> Wholes<'a> {
        let column: Option<&ArrayRef> = batch.column_by_name(name);
        let array = column.and_then(|column| {
            let whole = column.as_primitive_opt::<Int64Type>().map(|array| &array.values()[..]);
            whole.or_else(|| {
                let times = column.as_primitive_opt::<TimestampMicrosecondType>();
                times.map(|array| &array.values()[..])
            })
        });
        let nulls = column.map(|column| &**column).filter(|column| column.null_count() > 0);
        Wholes { array, nulls }
    }

    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let is_null = self.nulls.is_some_and(|array| array.is_null(row));
        self.array.filter(|_| !is_null).map(|array| array[row])
    }

    /// 0 if it is null. No count is negative.
    pub(super) fn count(&self, row: usize) -> u64 {
        self.get(row).map_or(0, |number| number.max(0) as u64)
    }
}

pub(super) fn reals<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a [f64]> {
    let column = batch.column_by_name(name)?.as_primitive_opt::<Float64Type>()?;
    Some(&column.values()[..])
}

/// A column of text: a number for each row, and the text of each number.
pub(super) struct Texts<'a> {
    keys: &'a DictionaryArray<Int32Type>,
    values: &'a StringArray,
}

impl<'a> Texts<'a> {
    pub(super) fn of(batch: &'a RecordBatch, name: &str) -> Option<Texts<'a>> {
        let keys = batch.column_by_name(name)?.as_dictionary_opt::<Int32Type>()?;
        Some(Texts { keys, values: keys.values().as_string_opt::<i32>()? })
    }

    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    pub(super) fn text(&self, key: usize) -> &'a str {
        self.values.value(key)
    }

    pub(super) fn key(&self, row: usize) -> Option<usize> {
        self.keys.is_valid(row).then(|| self.keys.keys().value(row) as usize)
    }

    /// What `make` makes of each text, by its key.
    pub(super) fn each<T>(&self, mut make: impl FnMut(&'a str) -> T) -> Vec<T> {
        (0..self.values.len()).map(|key| make(self.values.value(key))).collect()
    }
}
