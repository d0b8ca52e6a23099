//! What a transaction does: calls of the engine.

use oneflush_mvbt::{Result, TreeId, WriteTransaction};

/// The meta word that transactions set.
pub const META_WORD: usize = 3;

/// One call of the engine.
#[derive(Clone, Debug)]
pub enum Act {
    Insert { tree: TreeId, key: i64, payload: Vec<u8> },
    Delete { tree: TreeId, key: i64 },
    InsertRecord { tree: TreeId, record: Vec<u8> },
    DeleteRecord { tree: TreeId, record: Vec<u8> },
    Create { tree: TreeId, is_record: bool },
    Drop { tree: TreeId },
    Clear { tree: TreeId },
    SetMeta { value: u32 },
    Savepoint,
    RollBackTo { savepoint: usize },
    Release { savepoint: usize },
}

impl Act {
    /// An answer that the model does not give is an error.
    pub fn run(&self, txn: &mut WriteTransaction) -> Result<Result<(), String>> {
        match self {
            Act::Insert { tree, key, payload } => txn.insert(*tree, *key, payload).map(drop)?,
            Act::Delete { tree, key } => {
                if !txn.delete(*tree, *key)? {
                    return Ok(Err(format!("key {key} of tree {tree} was not there")));
                }
            }
            Act::InsertRecord { tree, record } => {
                let compare = |stored: &[u8]| stored.cmp(record.as_slice());
                txn.insert_record(*tree, record, &compare).map(drop)?;
            }
            Act::DeleteRecord { tree, record } => {
                let compare = |stored: &[u8]| stored.cmp(record.as_slice());
                if !txn.delete_record(*tree, &compare)? {
                    return Ok(Err(format!("a record of tree {tree} was not there")));
                }
            }
            Act::Create { tree, is_record } => {
                let made = txn.create_tree(*is_record)?;
                if made != *tree {
                    return Ok(Err(format!("the new tree has number {made}, not {tree}")));
                }
            }
            Act::Drop { tree } => txn.drop_tree(*tree)?,
            Act::Clear { tree } => txn.clear_tree(*tree).map(drop)?,
            Act::SetMeta { value } => txn.set_meta(META_WORD, *value)?,
            Act::Savepoint => drop(txn.savepoint()),
            Act::RollBackTo { savepoint } => txn.roll_back_to(*savepoint)?,
            Act::Release { savepoint } => txn.release(*savepoint),
        }
        Ok(Ok(()))
    }
}
